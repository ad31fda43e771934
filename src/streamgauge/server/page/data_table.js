// The numbers of a chart as a table, newest first, for screen readers and for copying. An update replaces only rows, so
// focus and scroll position are preserved.

import { formatCell } from "./cells.js";
import { el } from "./dom.js";
import { formatNumber, formatInteger } from "./numbers.js";
import { formatTime } from "./times.js";

const MAX_ROWS = 60;

export class DataTable {
  constructor() {
    this.caption = el("caption");
    this.head = el("thead");
    this.body = el("tbody");
    this.node = el("div", { class: "wide", tabindex: "0", role: "region" }, el("table", { class: "numbers" }, this.caption, this.head, this.body));
  }

  update(caption, lines) {
    const names = lines.flatMap((line) => (line.truth ? [line.name, `${line.name}, truth`] : [line.name]));
    const titles = JSON.stringify([caption, names]);
    if (titles !== this.titles) this.#setTitles(caption, names);
    this.titles = titles;
    const { scrollTop, scrollLeft } = this.node;
    this.body.replaceChildren(...buildRows(lines));
    Object.assign(this.node, { scrollTop, scrollLeft });
  }

  /** Show the groups of one tick, a row each. */
  updateBars(caption, bars, measure) {
    const names = [measure, ...(bars.some(({ truth }) => truth) ? [`${measure}, truth`] : [])];
    const titles = JSON.stringify([caption, names, "bars"]);
    if (titles !== this.titles) this.#setTitles(caption, names, ["Rank", "Group"]);
    this.titles = titles;
    this.body.replaceChildren(...bars.map(({ rank, name, column, truth }) => el("tr", {}, el("th", { scope: "row" }, formatInteger(rank)), el("td", {}, name),
      el("td", { class: "n" }, formatCell(column, 0)), truth && el("td", { class: "n" }, formatNumber(truth[0])))));
  }

  #setTitles(caption, names, first = ["Tick", "Ends (UTC)"]) {
    this.caption.textContent = caption;
    this.node.setAttribute("aria-label", caption);
    this.head.replaceChildren(el("tr", {}, first.map((name) => el("th", { scope: "col" }, name)), names.map((name) => el("th", { scope: "col", class: "n" }, name))));
  }
}

function buildRows(lines) {
  const { tick: ticks, time } = lines[0]?.column ?? { tick: [], time: [] };
  return ticks.map((_, i) => i).slice(-MAX_ROWS).reverse().map((i) => el("tr", {},
    el("th", { scope: "row" }, formatInteger(ticks[i])), el("td", {}, formatTime(time[i])),
    lines.flatMap((line) => [el("td", { class: "n" }, formatCell(line.column, i)), line.truth && el("td", { class: "n" }, formatNumber(line.truth[i]))])));
}
