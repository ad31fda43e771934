// The numbers behind a chart, newest first: what a chart is to those who do not see it, or want to copy.

import { el } from "./dom.js";
import { plusMinus, rounded } from "./numbers.js";

const ROWS = 60;

export function dataTable(caption, lines) {
  const ticks = lines[0]?.column.tick ?? [];
  const shown = ticks.map((_, i) => i).slice(-ROWS).reverse();
  const head = el("tr", {}, el("th", { scope: "col" }, "Tick"), el("th", { scope: "col" }, "Ends (UTC)"),
    lines.flatMap((line) => [el("th", { scope: "col", class: "n" }, line.name), line.truth && el("th", { scope: "col", class: "n" }, `${line.name}, truth`)]));
  const rows = shown.map((i) => el("tr", {},
    el("th", { scope: "row" }, ticks[i].toLocaleString("en-GB")), el("td", {}, clock(lines[0].column.time[i])),
    lines.flatMap((line) => [el("td", { class: "n" }, cell(line.column, i)), line.truth && el("td", { class: "n" }, plusMinus(line.truth[i], NaN))])));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "numbers" }, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, rows)));
}

/** A value of a column, with its error where that is known. */
export const cell = (column, i) => (column.most ? rounded(column.value[i], column.most[i] ?? 0) : plusMinus(column.value[i], column.high[i] === null ? NaN : (column.high[i] - column.low[i]) / 2));

export const clock = (time) => time.replace("T", " ").replace("Z", "").slice(0, 19);
