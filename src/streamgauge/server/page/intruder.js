// The rehearsal of an intrusion with synthetic people: two memories side by side, and the beliefs of two hundred
// intruders about one person. For a counter, or for a table of users.

import { ask } from "./api.js";
import { byId, choice, el, show, svg } from "./dom.js";
import { percent } from "./numbers.js";

const EDGE = 10;
const HERE = {
  ordinary: "The memory of the run behind this page is ordinary. An intruder on that machine would see what "
    + "ordinary memory shows here; what it stores on disk is encrypted, and what it releases keeps the promise.",
  reports: "The run behind this page collects reports that devices made private before they sent them. Its memory and its disk hold those, and nothing "
    + "that is exact: an intruder on that machine sees noise, as the collector does, and the number of reports. Other streams need what is rehearsed here.",
  mixed: "Reports that devices made private are noise in this run's memory too: an intruder on that machine sees no more of them than the collector does. "
    + "Its other columns are in ordinary memory, and would be seen as ordinary memory shows here.",
  "pan-private": "The memory of the run behind this page is pan-private: an intruder who looks once would see what pan-private memory shows here.",
};
const BADGES = { ordinary: { ordinary: "this stream's" }, mixed: { ordinary: "this stream's other columns" }, "pan-private": { pan: "this stream's" } };
const KINDS = { counter: "A counter of visits", table: "A table of patients" };
const LANES = 7; // rows of dots, so that fewer lie on one another

export class IntruderPanel {
  constructor() {
    new ResizeObserver(() => { if (this.told) this.strip?.replaceWith((this.strip = strip(this.told, this.kind))); }).observe(byId("intruder"));
  }

  /** Show the panel if the server has the rehearsal; it is loaded once. */
  show(is) {
    show(byId("intruder"), is);
    show(byId("intruder-link"), is);
    if (is && !this.begun) this.load();
    this.begun = is;
  }

  async load() {
    const body = byId("intruder-body");
    try {
      this.told = await ask("/api/rehearsal");
      this.kind ??= this.told.like;
      body.replaceChildren(...this.#shown(this.told));
    } catch (error) {
      body.replaceChildren(el("p", { class: "empty" }, `The rehearsal could not be held: ${error.message}.`), this.#again());
    }
  }

  #again() {
    return el("button", { type: "button", id: "rehearse", click: async () => { await this.load(); byId("rehearse").focus(); } }, "Rehearse again");
  }

  #choice() {
    return choice("What is seized", Object.entries(KINDS), this.kind, (kind) => {
      const body = byId("intruder-body");
      this.kind = kind;
      body.replaceChildren(...this.#shown(this.told));
      body.querySelector('[aria-pressed="true"]').focus();
    });
  }

  #shown(told) {
    this.strip = strip(told, this.kind);
    const { two_looks: twice } = told[this.kind];
    const sure = twice.filter((chance) => chance > 0.999 || chance < 0.001).length;
    return [
      el("div", { class: "row" }, this.#choice()),
      el("p", { class: "lead" }, `A rehearsal with synthetic people; it never reads the memory of the live run. ${SCENES[this.kind](told[this.kind])} The intruder knows all other visitors, and believes ${percent(told.before)} before looking.`),
      el("p", { class: "hint why" }, HERE[told.this_stream], told.reports?.length ? ` Columns of reports: ${told.reports.join(", ")}.` : ""),
      el("div", { class: "memories" }, PLAIN[this.kind](told), PRIVATE[this.kind](told)),
      this.strip,
      el("p", { class: "hint twice" }, `Two unannounced looks are not survived: ${sure} of ${twice.length} intruders would be certain. An announced look has noise before it and after it.`),
      el("div", { class: "row" }, this.#again(), el("p", { class: "hint" }, `The promise: with ε = ${told.epsilon} the odds move by a factor of at most e^ε = ${told.bounds.odds[1].toFixed(2)}, in every run; here by ${told[this.kind].worst_odds.toFixed(2)} at most.`)),
    ];
  }
}

const SCENES = {
  counter: (seen) => `Did Robin come in tick ${seen.came_in}? The memory is seized after tick ${seen.seen_after}, by one who has read every release.`,
  table: (seen) => `Did Robin, one of ${seen.patients} patients, ever come? In weeks 1 and 3, or never. The table is seized in week 2, and the estimate of week 3 is read.`,
};

const PLAIN = {
  counter: ({ counter: { plain: seen }, this_stream: here }) => memory("Ordinary memory", "bad", seen.chance,
    "It holds an exact total. One subtraction, and the intruder is certain.",
    [row("total so far", seen.seen, seen.without, seen.without + 1, "exact")], BADGES[here]?.ordinary),
  table: ({ table: { plain: seen }, this_stream: here }) => memory("Ordinary memory", "bad", seen.chance,
    "It holds the set of all who came, hashed perhaps. One look into it, and the intruder is certain.",
    [row("patients in the set", seen.seen, seen.without, seen.without + 1, "exact")], BADGES[here]?.ordinary),
};

const PRIVATE = {
  counter: ({ counter: seen, bounds, this_stream: here }) => memory("Pan-private memory", "good", seen.chance[0],
    `Every number that Robin is in has noise of its own. ${never(bounds)}`,
    seen.blocks.map((block) => row(
      block.first === block.last ? `tick ${block.first}` : `ticks ${block.first} to ${block.last}`,
      block.seen, block.without, block.with, block.released ? "noisy, released" : "noisy, in memory")), BADGES[here]?.pan),
  table: ({ table: { chance, first: seen }, bounds, this_stream: here }) => memory("Pan-private memory", "good", chance[0],
    `It holds one bit for each patient, drawn by chance whether they came or not. ${never(bounds)}`,
    [row("Robin's bit", seen.bit, `1 (${percent(seen.without)})`, `1 (${percent(seen.with)})`, "noisy, in memory"),
      row("ones, of all", seen.published, `${seen.ones + seen.bit}`, `${seen.ones} or ${seen.ones + 1}`, "noisy, released")], BADGES[here]?.pan),
};

const never = ({ chance: [low, high] }) => `Never below ${percent(low)}, never above ${percent(high)}.`;

const row = (what, seen, without, having, kind) => el("tr", {}, el("th", { scope: "row" }, what), el("td", { class: "n seen" }, String(seen)),
  el("td", { class: "n" }, String(without)), el("td", { class: "n" }, String(having)), el("td", { class: "hint" }, kind));

function memory(title, kind, chance, words, rows, here) {
  return el("section", { class: `memory ${kind}`, "aria-label": title },
    el("h3", {}, title, here && el("span", { class: "badge" }, here)), el("p", { class: "chance" }, el("b", {}, percent(chance)), " that Robin came"), el("p", { class: "hint" }, words),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${title}: what is in it` },
      el("table", {}, el("thead", {}, el("tr", {}, ["", "seen", "without", "with", ""].map((text, i) => el("th", { scope: "col", class: i && i < 4 ? "n" : null }, text)))), el("tbody", {}, rows))));
}

/** Each dot is one rehearsal: filled if Robin came, open if not. The full width is used, so that text keeps its size. */
function strip({ came: those, bounds, ...told }, kind) {
  const beliefs = told[kind].chance;
  const width = Math.max(260, byId("intruder-body").clientWidth);
  const x = (chance) => EDGE + (width - 2 * EDGE) * chance;
  const dots = beliefs.map((chance, i) => {
    const came = those[i];
    return svg("circle", { class: came ? "came" : "not", cx: x(chance), cy: (came ? 34 : 88) + 6 * (Math.floor(i / 2) % LANES), r: 4 });
  });
  const [low, high] = bounds.chance;
  const label = (at, y, text, anchor = "middle") => svg("text", { x: x(at), y, "text-anchor": anchor }, text);
  const several = beliefs.length;
  const found = [Math.min(...beliefs), Math.max(...beliefs)].map(percent);
  return el("figure", { class: "strip" },
    svg("svg", { viewBox: `0 0 ${width} 158`, role: "img", "aria-label": `After ${several} rehearsals the intruder's belief lies between ${found[0]} and ${found[1]}; `
      + `the promise is ${percent(low)} to ${percent(high)}. With ordinary memory it is 0 % or 100 %.` },
      svg("rect", { class: "promised", x: x(low), y: 20, width: x(high) - x(low), height: 116, rx: 6 }),
      svg("path", { class: "ground", d: `M${x(0)} 136H${x(1)}M${x(0.5)} 20V136` }),
      dots, svg("circle", { class: "came sure", cx: x(1), cy: 52, r: 7 }), svg("circle", { class: "not sure", cx: x(0), cy: 106, r: 7 }),
      label(0, 13, "certain: did not", "start"), label(0.5, 13, "promised"), label(1, 13, "certain: came", "end"),
      label(0, 152, "0 %", "start"), label(low, 152, percent(low)), label(0.5, 152, "50 %"), label(high, 152, percent(high)), label(1, 152, "100 %", "end")),
    el("figcaption", { class: "hint" }, `What ${several} intruders believe after looking. Filled: Robin came; open: Robin did not. The shaded range is the promise; `
      + "the large dots outside it are what ordinary memory tells."));
}
