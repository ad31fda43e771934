// One release: its chart, what was released last, and the ways to look at it. Readings are buttons that show or
// hide their group.

import { draw, forget } from "./chart.js";
import { cell, dataTable } from "./data_table.js";
import { differences, steps, WHY } from "./differences.js";
import { choice, el, show } from "./dom.js";
import { Drawing } from "./drawing.js";
import { count, lossText } from "./numbers.js";
import { dashOf } from "./palette.js";
import { placeName } from "./series.js";

const DRAWN = 8; // groups that are shown until others are chosen
const ADDS_UP = new Set(["count", "sum", "distinct"]);
const APART_HEIGHT = 132;

export class ReleaseCard {
  /** options: {range(), mayEnd, end}. */
  constructor(release, series, options) {
    Object.assign(this, { release, series, options, measure: release.measures[0], view: "running", layout: "together" });
    this.hidden = new Set();
    this.zoomed = 0;
    this.changed = true;
    this.drawing = new Drawing(() => this.#draw());
    this.node = this.#made();
    new ResizeObserver(() => this.update()).observe(this.plot);
    new IntersectionObserver(([entry]) => { this.seen = entry.isIntersecting; this.update(); }, { rootMargin: "200px" }).observe(this.node);
  }

  /** Draws soon and once, however often it is asked for, if it can be seen. */
  update() {
    if (!document.hidden && this.seen) this.drawing.ask();
  }

  /** The same, where another view was chosen: what was zoomed into is left. */
  refit() {
    this.zoomed += 1;
    this.changed = true;
    this.update();
  }

  /** What the release is by now: it may have ended. */
  know(release) {
    this.release = release;
    this.badges.replaceChildren(...this.#badges());
    show(this.endButton, this.options.mayEnd(release));
    this.update();
  }

  get key() {
    return this.release.name;
  }

  #made() {
    const { release } = this;
    const title = `release-${release.name}`;
    this.badges = el("p", { class: "badges" }, this.#badges());
    this.readings = el("div", { class: "readings", role: "group", "aria-label": "Groups: newest values, with 95 % errors" });
    const point = (pointed) => () => { this.pointed = pointed; this.update(); };
    this.plot = el("div", { class: "plot", role: "img", mouseenter: point(true), mouseleave: point(false) });
    this.empty = el("p", { class: "empty", hidden: true });
    this.note = el("p", { class: "hint why", hidden: true }, WHY);
    this.table = el("details", { class: "table", toggle: () => this.update() }, el("summary", {}, "Numbers as a table"));
    this.endButton = el("button", { type: "button", class: "quiet danger", click: () => this.options.end(this.release), hidden: !this.options.mayEnd(release) }, "End this release");
    return el("article", { class: "card", "aria-labelledby": title, "data-release": release.name },
      el("header", {}, el("div", {}, el("h3", { id: title }, release.title || release.name), this.badges), this.#controls()),
      release.description && el("p", { class: "hint" }, release.description),
      this.readings, this.empty, this.plot, this.note,
      el("footer", {}, el("details", { class: "sql" }, el("summary", {}, "What was asked"), el("pre", {}, el("code", {}, release.sql))), this.table, this.endButton));
  }

  #badges() {
    const { release } = this;
    const badge = (text, kind = "") => el("span", { class: `badge ${kind}` }, text);
    return [
      badge(release.window), badge(release.loss_text?.replace("epsilon", "ε").replace("rho", "ρ") ?? lossText(release.loss)),
      release.by && badge(`asked by ${release.by}`), release.discovered && badge("groups discovered"),
      release.ended !== null && release.ended !== undefined && badge(release.ended < release.first ? "ended" : `ended after tick ${release.ended.toLocaleString("en-GB")}`, "over"),
    ].filter(Boolean);
  }

  #controls() {
    const { release } = this;
    const again = (set) => (value) => { set(value); this.refit(); };
    this.perTick = choice("Running, or per tick", [["running", "Running"], ["tick", "Per tick"]], this.view, again((value) => { this.view = value; }));
    show(this.perTick, this.#addsUp());
    const measures = release.measures.length > 1 && choice("Measure", release.measures.map((name) => [name, name.replaceAll("_", " ")]), this.measure,
      again((value) => { this.measure = value; show(this.perTick, this.#addsUp()); }));
    this.apartness = choice("Groups", [["together", "Together"], ["apart", "Apart"]], this.layout, again((value) => { this.layout = value; }));
    show(this.apartness, (release.places ?? 1) > 1 || release.discovered);
    return el("div", { class: "controls" }, measures, this.perTick, this.apartness);
  }

  /** Whether what one tick adds is the difference of two releases. */
  #addsUp() {
    const kind = this.release.kinds?.[this.release.measures.indexOf(this.measure)];
    return this.release.window === "running" && ADDS_UP.has(kind);
  }

  #lines() {
    const perTick = this.view === "tick" && this.#addsUp();
    const range = this.options.range() + (perTick ? 1 : 0);
    return [...this.series.places].map(([key, place], index) => {
      const column = this.series.column(this.measure, key, range);
      const truth = this.options.truth(this.release.name, this.measure, key, column.tick);
      return { key, index, name: placeName(place), perTick, column: perTick ? differences(column) : column, truth: truth && perTick ? steps(truth).slice(1) : truth };
    });
  }

  #draw() {
    const lines = this.#lines();
    const some = lines.length > 0 && lines[0].column.tick.length > 0;
    show(this.empty, !some);
    const over = this.release.ended !== null && this.release.ended !== undefined;
    this.empty.textContent = over ? "It was ended before its first tick: nothing was released." : "Waiting for the first tick to close.";
    show(this.plot, some);
    show(this.note, some && lines[0].perTick);
    if (lines.length > DRAWN && !this.chosen) {
      this.chosen = true;
      for (const line of lines.slice(DRAWN)) this.hidden.add(line.key);
    }
    this.#read(lines);
    if (!some || (this.pointed && !this.changed)) return; // what is pointed at stands still, so that it can be read
    this.changed = false;
    const shown = lines.filter((line) => !this.hidden.has(line.key));
    const apart = this.layout === "apart" && shown.length > 1;
    const columns = this.plot.clientWidth < 480 ? 1 : 2;
    const height = apart ? Math.ceil(shown.length / columns) * APART_HEIGHT + 30 : 270;
    if (this.panels !== (apart ? shown.length : 1)) forget(this.plot);
    this.panels = apart ? shown.length : 1;
    this.plot.setAttribute("aria-label", this.#summary(shown));
    draw(this.plot, { lines: shown, apart, columns, width: this.plot.clientWidth, height, zoomed: this.zoomed });
    if (this.table.open) this.table.replaceChildren(this.table.firstChild, dataTable(`${this.release.name}: ${this.measure}, newest first`, shown));
  }

  /** The newest value of every group. Buttons are made once, so that focus stays. */
  #read(lines) {
    const known = new Map([...this.readings.children].map((button) => [button.dataset.key, button]));
    lines.forEach((line) => {
      const button = known.get(line.key) ?? this.readings.appendChild(this.#reading(line));
      button.setAttribute("aria-pressed", String(!this.hidden.has(line.key)));
      button.querySelector(".amount").textContent = newest(line.column);
    });
  }

  #reading({ key, index, name }) {
    const flip = () => { if (!this.hidden.delete(key)) this.hidden.add(key); this.refit(); };
    return el("button", { type: "button", class: `reading g${(index % 8) + 1} ${dashOf(index)}`, "data-key": key, click: flip },
      el("span", { class: "name" }, name), el("span", { class: "amount" }));
  }

  #summary(shown) {
    const ticks = shown[0]?.column.tick ?? [];
    const told = shown.slice(0, 6).map((line) => `${line.name} ${newest(line.column)}`).join("; ");
    return `Chart of ${this.measure} over ${count(ticks.length, "tick")}, to tick ${ticks.at(-1) ?? 0}. Newest: ${told}. The same numbers are in the table below.`;
  }
}

function newest(column) {
  const i = column.value.length - 1;
  if (i < 0) return "…";
  return cell(column, i);
}
