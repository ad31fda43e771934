// Rehearsal of an intrusion with synthetic people, for a counter or a table of users. It shows an ordinary and a
// pan-private memory, and the beliefs of two hundred intruders about one person.

import { request } from "./api.js";
import { byId, choice, el, show, svg } from "./dom.js";
import { formatPercent } from "./numbers.js";

const EDGE_PIXELS = 10;
const STREAM_TEXTS = {
  ordinary: "The run behind this page uses ordinary memory. An intruder on that machine would see exact values, "
    + "as shown under ordinary memory. The state on disk is encrypted, and the guarantee of the releases still applies.",
  reports: "The run behind this page collects reports that devices privatise before they send them. Its memory and its disk contain those reports, and no exact value of any device. "
    + "An intruder on that machine sees the same noisy reports as the collector, and their number. The rehearsal is about other streams.",
  mixed: "Devices privatise their reports before they send them, so an intruder on this machine learns no more from them than the collector does. "
    + "The other columns are in ordinary memory. An intruder would see their exact values, as shown under ordinary memory.",
  "pan-private": "The run behind this page uses pan-private memory. An intruder who looks once would see noisy values, as shown under pan-private memory.",
};
const BADGES = { ordinary: { ordinary: "used by this stream" }, mixed: { ordinary: "used by other columns of this stream" }, "pan-private": { pan: "used by this stream" } };
const KINDS = { counter: "A counter of visits", table: "A table of patients" };
const DOT_ROWS = 7; // rows of dots, to reduce overlap

export class IntruderPanel {
  constructor() {
    new ResizeObserver(() => { if (this.rehearsal) this.strip?.replaceWith((this.strip = buildStrip(this.rehearsal, this.kind))); }).observe(byId("intruder"));
  }

  /** Show the panel if the server offers the rehearsal. Load it when the panel appears. */
  show(visible) {
    show(byId("intruder"), visible);
    show(byId("intruder-link"), visible);
    if (visible && !this.isVisible) this.load();
    this.isVisible = visible;
  }

  async load() {
    const body = byId("intruder-body");
    try {
      this.rehearsal = await request("/api/rehearsal");
      this.kind ??= this.rehearsal.like;
      body.replaceChildren(...this.#buildContent(this.rehearsal));
    } catch (error) {
      body.replaceChildren(el("p", { class: "empty" }, `The rehearsal failed: ${error.message}.`), this.#buildButton());
    }
  }

  #buildButton() {
    return el("button", { type: "button", id: "rehearse", click: async () => { await this.load(); byId("rehearse").focus(); } }, "Rehearse again");
  }

  #buildChoice() {
    return choice("Seized memory", Object.entries(KINDS), this.kind, (kind) => {
      const body = byId("intruder-body");
      this.kind = kind;
      body.replaceChildren(...this.#buildContent(this.rehearsal));
      body.querySelector('[aria-pressed="true"]').focus();
    });
  }

  #buildContent(rehearsal) {
    this.strip = buildStrip(rehearsal, this.kind);
    const { two_looks: twice } = rehearsal[this.kind];
    const sure = twice.filter((chance) => chance > 0.999 || chance < 0.001).length;
    return [
      el("div", { class: "row" }, this.#buildChoice()),
      el("p", { class: "lead" }, `This rehearsal uses synthetic people and never reads the memory of the live run. ${SCENARIOS[this.kind](rehearsal[this.kind])} The intruder knows all other visitors. Before the look, the intruder's belief that Robin came is ${formatPercent(rehearsal.before)}.`),
      el("p", { class: "hint why" }, STREAM_TEXTS[rehearsal.this_stream], rehearsal.reports?.length ? ` Columns of reports: ${rehearsal.reports.join(", ")}.` : ""),
      el("div", { class: "memories" }, ORDINARY_VIEWS[this.kind](rehearsal), PRIVATE_VIEWS[this.kind](rehearsal)),
      this.strip,
      el("p", { class: "hint twice" }, `Two unannounced looks break the guarantee: ${sure} of ${twice.length} intruders would be certain. At an announced intrusion, a pan-private run adds fresh noise before the look and again after it.`),
      el("div", { class: "row" }, this.#buildButton(), el("p", { class: "hint" }, `Guarantee: with ε = ${rehearsal.epsilon} the odds change by a factor of at most e^ε = ${rehearsal.bounds.odds[1].toFixed(2)}, in every run. Largest factor in this rehearsal: ${rehearsal[this.kind].worst_odds.toFixed(2)}.`)),
    ];
  }
}

const SCENARIOS = {
  counter: (view) => `Did Robin come in tick ${view.came_in}? The intruder has read every release and seizes the memory after tick ${view.seen_after}.`,
  table: (view) => `Robin, one of ${view.patients} patients, came in weeks 1 and 3 or never. The intruder seizes the table in week 2 and reads the estimate of week 3.`,
};

const ORDINARY_VIEWS = {
  counter: ({ counter: { plain: view }, this_stream: memoryKind }) => buildMemory("Ordinary memory", "bad", view.chance,
    "It contains an exact total. One subtraction makes the intruder certain.",
    [buildRow("total so far", view.seen, view.without, view.without + 1, "exact")], BADGES[memoryKind]?.ordinary),
  table: ({ table: { plain: view }, this_stream: memoryKind }) => buildMemory("Ordinary memory", "bad", view.chance,
    "It contains the set of all visitors, possibly hashed. One lookup makes the intruder certain.",
    [buildRow("patients in the set", view.seen, view.without, view.without + 1, "exact")], BADGES[memoryKind]?.ordinary),
};

const PRIVATE_VIEWS = {
  counter: ({ counter: view, bounds, this_stream: memoryKind }) => buildMemory("Pan-private memory", "good", view.chance[0],
    `Every number that includes Robin has independent noise. ${boundText(bounds)}`,
    view.blocks.map((block) => buildRow(
      block.first === block.last ? `tick ${block.first}` : `ticks ${block.first} to ${block.last}`,
      block.seen, block.without, block.with, block.released ? "noisy, released" : "noisy, in memory")), BADGES[memoryKind]?.pan),
  table: ({ table: { chance, first: view }, bounds, this_stream: memoryKind }) => buildMemory("Pan-private memory", "good", chance[0],
    `It contains one random bit for each patient, whether or not the patient came. ${boundText(bounds)}`,
    [buildRow("Robin's bit", view.bit, `1 (${formatPercent(view.without)})`, `1 (${formatPercent(view.with)})`, "noisy, in memory"),
      buildRow("sum of all bits", view.published, `${view.ones + view.bit}`, `${view.ones} or ${view.ones + 1}`, "noisy, released")], BADGES[memoryKind]?.pan),
};

const boundText = ({ chance: [low, high] }) => `The belief is never below ${formatPercent(low)} and never above ${formatPercent(high)}.`;

const buildRow = (name, observed, without, having, kind) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "n observed" }, String(observed)),
  el("td", { class: "n" }, String(without)), el("td", { class: "n" }, String(having)), el("td", { class: "hint" }, kind));

function buildMemory(title, kind, chance, text, rows, memoryKind) {
  return el("section", { class: `memory ${kind}`, "aria-label": title },
    el("h3", {}, title, memoryKind && el("span", { class: "badge" }, memoryKind)), el("p", { class: "chance" }, el("b", {}, formatPercent(chance)), " that Robin came"), el("p", { class: "hint" }, text),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${title}: contents` },
      el("table", {}, el("thead", {}, el("tr", {}, ["", "observed", "without", "with", ""].map((text, i) => el("th", { scope: "col", class: i && i < 4 ? "n" : null }, text)))), el("tbody", {}, rows))));
}

/** Draw one dot for each rehearsal: filled if Robin came, open if not. The drawing has the width of the page, so that text is not scaled. */
function buildStrip({ came: presence, bounds, ...rehearsal }, kind) {
  const beliefs = rehearsal[kind].chance;
  const width = Math.max(260, byId("intruder-body").clientWidth);
  const x = (chance) => EDGE_PIXELS + (width - 2 * EDGE_PIXELS) * chance;
  const dots = beliefs.map((chance, i) => {
    const came = presence[i];
    return svg("circle", { class: came ? "came" : "not", cx: x(chance), cy: (came ? 34 : 88) + 6 * (Math.floor(i / 2) % DOT_ROWS), r: 4 });
  });
  const [low, high] = bounds.chance;
  const label = (at, y, text, anchor = "middle") => svg("text", { x: x(at), y, "text-anchor": anchor }, text);
  const total = beliefs.length;
  const range = [Math.min(...beliefs), Math.max(...beliefs)].map(formatPercent);
  return el("figure", { class: "strip" },
    svg("svg", { viewBox: `0 0 ${width} 158`, role: "img", "aria-label": `After ${total} rehearsals the intruder's belief lies between ${range[0]} and ${range[1]}; `
      + `the guarantee is ${formatPercent(low)} to ${formatPercent(high)}. With ordinary memory it is 0 % or 100 %.` },
      svg("rect", { class: "promised", x: x(low), y: 20, width: x(high) - x(low), height: 116, rx: 6 }),
      svg("path", { class: "ground", d: `M${x(0)} 136H${x(1)}M${x(0.5)} 20V136` }),
      dots, svg("circle", { class: "came sure", cx: x(1), cy: 52, r: 7 }), svg("circle", { class: "not sure", cx: x(0), cy: 106, r: 7 }),
      label(0, 13, "certain: did not", "start"), label(0.5, 13, "guaranteed"), label(1, 13, "certain: came", "end"),
      label(0, 152, "0 %", "start"), label(low, 152, formatPercent(low)), label(0.5, 152, "50 %"), label(high, 152, formatPercent(high)), label(1, 152, "100 %", "end")),
    el("figcaption", { class: "hint" }, `Beliefs of ${total} intruders after the look. Filled dots: Robin came. Open dots: Robin did not. The shaded range is the guarantee. `
      + "The large dots outside it are the beliefs with ordinary memory."));
}
