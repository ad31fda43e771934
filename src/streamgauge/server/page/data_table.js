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

  #setTitles(caption, names) {
    this.caption.textContent = caption;
    this.node.setAttribute("aria-label", caption);
    this.head.replaceChildren(el("tr", {}, el("th", { scope: "col" }, "Tick"), el("th", { scope: "col" }, "Ends (UTC)"),
      names.map((name) => el("th", { scope: "col", class: "n" }, name))));
  }
}

function buildRows(lines) {
  const { tick: ticks, time } = lines[0]?.column ?? { tick: [], time: [] };
  return ticks.map((_, i) => i).slice(-MAX_ROWS).reverse().map((i) => el("tr", {},
    el("th", { scope: "row" }, formatInteger(ticks[i])), el("td", {}, formatTime(time[i])),
    lines.flatMap((line) => [el("td", { class: "n" }, formatCell(line.column, i)), line.truth && el("td", { class: "n" }, formatNumber(line.truth[i]))])));
}
