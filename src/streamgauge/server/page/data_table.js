// The numbers of a chart as a table, newest first, for screen readers and for copying. New ticks replace rows only, so
// focus and scroll position stay.

import { cell } from "./cells.js";
import { el } from "./dom.js";
import { plain, whole } from "./numbers.js";
import { clock } from "./times.js";

const ROWS = 60;

export class DataTable {
  constructor() {
    this.caption = el("caption");
    this.head = el("thead");
    this.rows = el("tbody");
    this.node = el("div", { class: "wide", tabindex: "0", role: "region" }, el("table", { class: "numbers" }, this.caption, this.head, this.rows));
  }

  update(caption, lines) {
    const names = lines.flatMap((line) => (line.truth ? [line.name, `${line.name}, truth`] : [line.name]));
    const titles = JSON.stringify([caption, names]);
    if (titles !== this.titles) this.#title(caption, names);
    this.titles = titles;
    const { scrollTop, scrollLeft } = this.node;
    this.rows.replaceChildren(...rows(lines));
    Object.assign(this.node, { scrollTop, scrollLeft });
  }

  #title(caption, names) {
    this.caption.textContent = caption;
    this.node.setAttribute("aria-label", caption);
    this.head.replaceChildren(el("tr", {}, el("th", { scope: "col" }, "Tick"), el("th", { scope: "col" }, "Ends (UTC)"),
      names.map((name) => el("th", { scope: "col", class: "n" }, name))));
  }
}

function rows(lines) {
  const { tick: ticks, time } = lines[0]?.column ?? { tick: [], time: [] };
  return ticks.map((_, i) => i).slice(-ROWS).reverse().map((i) => el("tr", {},
    el("th", { scope: "row" }, whole(ticks[i])), el("td", {}, clock(time[i])),
    lines.flatMap((line) => [el("td", { class: "n" }, cell(line.column, i)), line.truth && el("td", { class: "n" }, plain(line.truth[i]))])));
}
