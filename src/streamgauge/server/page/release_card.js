// One release: its chart, its newest values, and a table of the same numbers.

import { cell } from "./cells.js";
import { canDraw, draw, forget } from "./chart.js";
import { DataTable } from "./data_table.js";
import { el, show } from "./dom.js";
import { FrameScheduler } from "./frame_scheduler.js";
import { Groups } from "./groups.js";
import { roomFor, stepFor } from "./histories.js";
import { count, ordinal } from "./numbers.js";
import { badges, controls, isOver, links } from "./release_head.js";
import { sampleTicks } from "./tick_sampling.js";
import { isAhead, moment } from "./times.js";

const APART_HEIGHT = 132;

const spanOf = (tick) => (tick.length ? tick.at(-1) - tick[0] + 1 : 0);

export class ReleaseCard {
  /** options: {stream, range(), mayEnd, end, truth, chosen(key), names()}; names are loaded if there are too many groups. */
  constructor(release, series, options) {
    Object.assign(this, { release, series, options, zoomed: 0, changed: true, panels: 1, width: 0 });
    this.view = { measure: release.measures[0], layout: "together" };
    this.drawing = new FrameScheduler(() => this.#draw());
    this.node = this.#made();
    new ResizeObserver(() => this.update()).observe(this.plot);
    new IntersectionObserver((entries) => { this.seen = entries.at(-1).isIntersecting; this.update(); }, { rootMargin: "200px" }).observe(this.node);
  }

  /** Draw soon and once if the card is visible, however often this is called. */
  update(how) {
    if (!document.hidden && this.seen) this.drawing.ask(how);
  }

  /** Draw another view, and reset the zoom. */
  refit() {
    this.zoomed += 1;
    this.changed = true;
    this.update({ atOnce: true });
  }

  /** Update the release: it may have ended. */
  know(release) {
    this.release = release;
    this.badges.replaceChildren(...badges(release));
    show(this.endButton, this.options.mayEnd(release));
    this.update();
  }

  #made() {
    const { release, options } = this;
    const title = `release-${release.name}`;
    const point = (pointed) => () => { this.pointed = pointed; show(this.paused, false); this.update(); };
    this.badges = el("p", { class: "badges" }, badges(release));
    this.groups = new Groups({ changed: (key, shown) => { if (shown) options.chosen?.(key); this.refit(); }, opened: options.names, first: options.names ? 0 : undefined });
    this.groups.total = options.names && release.places;
    this.plot = el("div", { class: "plot", role: "img" });
    this.paused = el("p", { class: "paused", hidden: true }, "paused while you point");
    this.frame = el("div", { class: "drawn", mouseenter: point(true), mouseleave: point(false) }, this.plot, this.paused);
    this.empty = el("p", { class: "empty", hidden: true });
    this.thin = el("p", { class: "hint thin", hidden: true });
    this.numbers = new DataTable();
    this.table = el("details", { class: "table", toggle: () => this.update({ atOnce: true }) }, el("summary", {}, "Numbers as a table"), this.numbers.node);
    this.endButton = el("button", { type: "button", class: "quiet danger", click: () => options.end(this.release, this.heading), hidden: !options.mayEnd(release) }, "End this release");
    this.heading = el("h3", { id: title, tabindex: "-1" }, release.title || release.name);
    return el("article", { class: "card", "aria-labelledby": title, "data-release": release.name },
      el("header", {}, el("div", {}, this.heading, this.badges), controls(release, this.view, () => this.refit())),
      release.description && el("p", { class: "hint" }, release.description),
      this.groups.node, this.empty, this.frame, this.thin,
      el("footer", {}, el("details", { class: "sql" }, el("summary", {}, "Query"), el("pre", {}, el("code", {}, release.sql))), this.table, links(release), this.endButton));
  }

  #line({ key, index, name }) {
    const { measure } = this.view;
    const column = this.series.column(measure, key, this.options.range());
    return { key, index, name, column, truth: this.options.truth(this.release.name, measure, key, column.tick) };
  }

  #draw() {
    const lines = this.groups.take(this.series.groups()).map((group) => this.#line(group));
    const shown = lines.filter((line) => this.groups.shows(line.key));
    const reason = this.#nothing(lines, shown);
    this.groups.read(lines);
    this.empty.textContent = reason;
    show(this.empty, reason !== "");
    show(this.frame, reason === "");
    this.#told(reason === "" ? shown[0].column.tick : []);
    if (this.table.open) this.numbers.update(`${this.release.name}: ${this.view.measure}, newest first`, shown);
    if (reason === "") this.#chart(shown);
  }

  /** Return the reason for a missing chart. */
  #nothing(lines, shown) {
    const { release, options } = this;
    if (!canDraw()) return "The script that draws charts did not come: the numbers are in the table.";
    if (options.names && !shown.length) return `${count(release.places, "group")} are more than a chart can show: choose some by name above, or take all of them as CSV.`;
    if (!release.ticks && !this.series.last) {
      if (isOver(release)) return "It was ended before its first tick: nothing was released.";
      return isAhead(options.stream.start) ? `Starts at ${moment(options.stream.start)}.` : "Waiting for the first tick to close.";
    }
    if (lines.length && !shown.length) return "All groups are hidden: press one above to see it.";
    if (release.discovered && !lines.length && (this.series.ready || this.series.last)) return `No group has passed its threshold yet${release.threshold ? `: ${release.threshold.text}` : ""}.`;
    return shown.length && shown[0].column.tick.length ? "" : "Reading what was released.";
  }

  /** Step between drawn ticks. */
  #step(tick) {
    return Number.isFinite(this.options.range()) ? 1 : stepFor(this.release, this.#ticks(tick));
  }

  /** Number of ticks of the chart; a step may skip the first tick. */
  #ticks(tick) {
    const all = !Number.isFinite(this.options.range()) && tick.length && this.release.ticks;
    return all ? tick.at(-1) - this.release.ticks.from + 1 : spanOf(tick);
  }

  #told(tick) {
    const n = this.#step(tick);
    const older = n === 1 && tick.length >= roomFor(this.release) && this.series.first > (this.release.ticks?.from ?? this.series.first);
    this.thin.textContent = (n > 1 ? `Every ${ordinal(n)} tick of ${count(this.#ticks(tick), "tick")} is drawn. ` : "")
      + (older ? `Older ticks than the newest ${count(tick.length, "tick")} are in the CSV alone.` : "");
    show(this.thin, this.thin.textContent !== "");
  }

  /** Do not redraw under the pointer, unless the width or the view has changed. */
  #chart(shown) {
    const width = this.plot.clientWidth;
    if (this.pointed && !this.changed && width === this.width) {
      show(this.paused, true);
      return;
    }
    Object.assign(this, { changed: false, width });
    const apart = this.view.layout === "apart" && shown.length > 1;
    const columns = width < 480 ? 1 : 2;
    const panels = apart ? shown.length : 1;
    const height = apart ? Math.ceil(panels / columns) * APART_HEIGHT + 44 : 280;
    if (this.panels !== panels) forget(this.plot);
    this.panels = panels;
    this.plot.setAttribute("aria-label", this.#summary(shown));
    const n = this.#step(shown[0].column.tick);
    draw(this.plot, { lines: shown.map((line) => sampleTicks(line, n)), apart, columns, width, height, zoomed: this.zoomed, tick: this.options.stream.tick });
  }

  #summary(shown) {
    const ticks = shown[0].column.tick;
    const told = shown.slice(0, 6).map(({ name, column }) => `${name} ${cell(column, column.value.length - 1)}`).join("; ");
    return `Chart of ${this.view.measure} over ${count(spanOf(ticks), "tick")}, to tick ${ticks.at(-1)}. Newest: ${told}. The same numbers are in the table below.`;
  }
}
