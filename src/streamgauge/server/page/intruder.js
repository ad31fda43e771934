// The rehearsal of an intrusion, over people who were made up for it: two memories side by side, and what two
// hundred intruders would think of one person after looking.

import { ask } from "./api.js";
import { byId, el, svg } from "./dom.js";
import { percent } from "./numbers.js";

const EDGE = 10;
const HERE = {
  ordinary: "The memory of the run behind this page is ordinary: pipelines are not pan-private yet. Whoever seizes that machine while it runs would see what "
    + "ordinary memory shows here; what it stores on disk is encrypted, and what it releases keeps the promise.",
  "pan-private": "The memory of the run behind this page is pan-private: whoever seizes that machine would see what pan-private memory shows here.",
};
const LANES = 7; // rows of dots, so that fewer lie on one another

export class IntruderPanel {
  constructor() {
    new ResizeObserver(() => { if (this.told) this.strip?.replaceWith((this.strip = strip(this.told))); }).observe(byId("intruder"));
  }

  async load() {
    const body = byId("intruder-body");
    try {
      this.told = await ask("/api/rehearsal");
      body.replaceChildren(...this.#shown(this.told));
    } catch (error) {
      body.replaceChildren(el("p", { class: "empty" }, `The rehearsal could not be held: ${error.message}.`), this.#again());
    }
  }

  #again() {
    return el("button", { type: "button", id: "rehearse", click: async () => { await this.load(); byId("rehearse").focus(); } }, "Rehearse again");
  }

  #shown(told) {
    this.strip = strip(told);
    return [
      el("p", { class: "lead" }, `A rehearsal with made-up people; the live run's memory is never looked at. Did Robin come in tick ${told.came_in}? `
        + `The intruder seizes the memory after tick ${told.seen_after}, has read every release, knows everybody else who came, and thinks ${percent(told.before)} before looking.`),
      el("p", { class: "hint why" }, HERE[told.this_stream]),
      el("div", { class: "memories" }, plain(told), panPrivate(told)),
      this.strip,
      el("div", { class: "row" }, this.#again(), el("p", { class: "hint" }, `The promise: with ε = ${told.epsilon} the odds move by a factor of at most e^ε = ${told.bounds.odds[1].toFixed(2)}, in every run.`)),
    ];
  }
}

function plain({ plain: seen, this_stream: here }) {
  return memory("Ordinary memory", "bad", seen.chance,
    "It holds an exact total. One subtraction, and the intruder is certain.",
    [row("total so far", seen.seen, seen.without, seen.without + 1, "exact")], here === "ordinary");
}

function panPrivate({ pan_private: seen, bounds, this_stream: here }) {
  const rows = seen.blocks.map((block) => row(
    block.first === block.last ? `tick ${block.first}` : `ticks ${block.first} to ${block.last}`,
    block.seen, block.without, block.with, block.released ? "noisy, released" : "noisy, in memory"));
  return memory("Pan-private memory", "good", seen.chance,
    `Every number that Robin is in has noise of its own. Never below ${percent(bounds.chance[0])}, never above ${percent(bounds.chance[1])}.`, rows, here === "pan-private");
}

const row = (what, seen, without, having, kind) => el("tr", {}, el("th", { scope: "row" }, what), el("td", { class: "n seen" }, String(seen)),
  el("td", { class: "n" }, String(without)), el("td", { class: "n" }, String(having)), el("td", { class: "hint" }, kind));

function memory(title, kind, chance, words, rows, here) {
  return el("section", { class: `memory ${kind}`, "aria-label": title },
    el("h3", {}, title, here && el("span", { class: "badge" }, "this stream's")), el("p", { class: "chance" }, el("b", {}, percent(chance)), " that Robin came"), el("p", { class: "hint" }, words),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${title}: what is in it` },
      el("table", {}, el("thead", {}, el("tr", {}, ["", "seen", "without", "with", ""].map((text, i) => el("th", { scope: "col", class: i && i < 4 ? "n" : null }, text)))), el("tbody", {}, rows))));
}

/** Each dot is one rehearsal: filled where Robin came, open where not. As wide as there is room, so that words keep their size. */
function strip({ rehearsals, bounds }) {
  const width = Math.max(260, byId("intruder-body").clientWidth);
  const x = (chance) => EDGE + (width - 2 * EDGE) * chance;
  const dots = rehearsals.chance.map((chance, i) => {
    const came = rehearsals.came[i];
    return svg("circle", { class: came ? "came" : "not", cx: x(chance), cy: (came ? 34 : 88) + 6 * (Math.floor(i / 2) % LANES), r: 4 });
  });
  const [low, high] = bounds.chance;
  const label = (at, y, text, anchor = "middle") => svg("text", { x: x(at), y, "text-anchor": anchor }, text);
  const several = rehearsals.chance.length;
  const found = [Math.min(...rehearsals.chance), Math.max(...rehearsals.chance)].map(percent);
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
