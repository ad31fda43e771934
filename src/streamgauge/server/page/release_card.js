// One release: its chart, its newest values, and a table of the same numbers.

import { formatCell } from "./cells.js";
import { canDraw, draw, drawBars, clearChart } from "./chart.js";
import { DataTable } from "./data_table.js";
import { el, show } from "./dom.js";
import { FrameScheduler } from "./frame_scheduler.js";
import { Groups } from "./groups.js";
import { isWide, maxTicks, tickStep } from "./histories.js";
import { formatCount, formatInteger, formatOrdinal } from "./numbers.js";
import { listNewest } from "./ranking.js";
import { buildBadges, buildControls, isEnded, buildLinks } from "./release_head.js";
import { sampleTicks } from "./tick_sampling.js";
import { isFuture, formatMoment, formatTime } from "./times.js";

const PANEL_PIXELS = 132;
const BAR_PIXELS = 27;
const MAX_BARS = 24;

const countTicks = (tick) => (tick.length ? tick.at(-1) - tick[0] + 1 : 0);

export class ReleaseCard {
  /** options: {stream, range(), mayEnd, end, truth, loadGroup(key), loadNames()}; the last two if there are too many groups. */
  constructor(release, series, options) {
    Object.assign(this, { release, series, options, zoomed: 0, changed: true, panels: 1, width: 0 });
    this.view = { measure: release.ranking?.measure ?? release.measures[0], layout: release.ranking && !isWide(release) ? "bars" : "together" };
    this.scheduler = new FrameScheduler(() => this.#draw());
    this.node = this.#build();
    new ResizeObserver(() => this.update()).observe(this.plot);
    new IntersectionObserver((entries) => { this.isOnScreen = entries.at(-1).isIntersecting; this.update(); }, { rootMargin: "200px" }).observe(this.node);
  }

  /** Schedule one redraw if the card is on the screen. */
  update(how) {
    if (!document.hidden && this.isOnScreen) this.scheduler.schedule(how);
  }

  /** Draw a changed view, and reset the zoom. */
  refit() {
    this.zoomed += 1;
    this.changed = true;
    this.update({ immediate: true });
  }

  /** Set the release, which may have ended. */
  setRelease(release) {
    this.release = release;
    this.badges.replaceChildren(...buildBadges(release));
    show(this.endButton, this.options.mayEnd(release));
    this.update();
  }

  #build() {
    const { release, options } = this;
    const title = `release-${release.name}`;
    const hover = (isHovered) => () => { this.isHovered = isHovered; show(this.paused, false); this.update(); };
    this.badges = el("p", { class: "badges" }, buildBadges(release));
    this.groups = new Groups({ onChange: (key, visible) => { if (visible) options.loadGroup?.(key); this.refit(); }, onOpen: options.loadNames, first: options.loadNames ? 0 : undefined });
    this.groups.total = options.loadNames && release.places;
    this.plot = el("div", { class: "plot", role: "img" });
    this.paused = el("p", { class: "paused", hidden: true }, "paused under the pointer");
    this.frame = el("div", { class: "drawn", mouseenter: hover(true), mouseleave: hover(false) }, this.plot, this.paused);
    this.empty = el("p", { class: "empty", hidden: true });
    this.samplingText = el("p", { class: "hint thin", hidden: true });
    this.numbers = new DataTable();
    this.table = el("details", { class: "table", toggle: () => this.update({ immediate: true }) }, el("summary", {}, "Numbers as a table"), this.numbers.node);
    this.endButton = el("button", { type: "button", class: "quiet danger", click: () => options.end(this.release, this.heading), hidden: !options.mayEnd(release) }, "End this release");
    this.heading = el("h3", { id: title, tabindex: "-1" }, release.title || release.name);
    return el("article", { class: "card", "aria-labelledby": title, "data-release": release.name },
      el("header", {}, el("div", {}, this.heading, this.badges), buildControls(release, this.view, !isWide(release), () => this.refit())),
      release.description && el("p", { class: "hint" }, release.description),
      this.groups.node, this.empty, this.frame, this.samplingText,
      el("footer", {}, el("details", { class: "sql" }, el("summary", {}, "Query"), el("pre", {}, el("code", {}, release.sql))), this.table, buildLinks(release), this.endButton));
  }

  #line({ key, index, name }) {
    const { measure } = this.view;
    const column = this.series.column(measure, key, this.options.range());
    return { key, index, name, column, truth: this.options.truth(this.release.name, measure, key, column.tick) };
  }

  #draw() {
    const { measure, layout } = this.view;
    const groups = this.series.groups(measure);
    show(this.groups.node, layout !== "bars");
    if (layout === "bars") { this.#drawNewest(listNewest(groups)); return; }
    const lines = this.groups.setGroups(groups).map((group) => this.#line(group));
    const shown = lines.filter((line) => this.groups.isVisible(line.key));
    const reason = this.#emptyText(lines, shown);
    this.groups.showNewest(lines);
    this.empty.textContent = reason;
    show(this.empty, reason !== "");
    show(this.frame, reason === "");
    this.#explainSampling(reason === "" ? shown[0].column.tick : []);
    if (this.table.open) this.numbers.update(`${this.release.name}: ${this.view.measure}, newest first`, shown);
    if (reason === "") this.#chart(shown);
  }

  /** Draw the largest groups of the newest tick. */
  #drawNewest(listed) {
    const { measure } = this.view;
    const bars = listed.slice(0, MAX_BARS).map(({ key, name, rank }) => {
      const column = this.series.column(measure, key, 1);
      return { key, name, rank, column, truth: this.options.truth(this.release.name, measure, key, column.tick) };
    });
    const reason = this.#emptyText(bars, bars);
    this.empty.textContent = reason;
    show(this.empty, reason !== "");
    show(this.frame, reason === "");
    show(this.samplingText, reason === "");
    if (reason !== "") return;
    const { tick: [tick], time: [time] } = bars[0].column;
    const more = listed.length > bars.length ? `; the ${formatCount(bars.length, "largest group")} of ${formatCount(listed.length, "group")}` : "";
    this.samplingText.textContent = `At tick ${formatInteger(tick)}, which ended ${formatTime(time)} UTC${more}.${this.release.ranking ? " The error bars hold for all groups at once." : ""}`;
    if (this.table.open) this.numbers.updateBars(`${this.release.name}: ${measure} at tick ${formatInteger(tick)}`, bars, measure);
    this.#redraw((width) => {
      this.plot.setAttribute("aria-label", `Bars of ${measure} at tick ${tick}, largest first. ${bars.slice(0, 6).map(({ name, column }) => `${name} ${formatCell(column, 0)}`).join("; ")}. The same numbers are in the table below.`);
      if (this.panels !== 0) clearChart(this.plot);
      this.panels = 0;
      drawBars(this.plot, { bars, width, height: bars.length * BAR_PIXELS + 56 });
    });
  }

  /** Return the text shown instead of a chart, or an empty text. */
  #emptyText(lines, shown) {
    const { release, options } = this;
    if (!canDraw()) return "The chart script did not load. The numbers are in the table.";
    if (options.loadNames && !shown.length) return `${formatCount(release.places, "group")} are too many for a chart. Choose some by name above, or download all as CSV.`;
    if (!release.ticks && !this.series.last) {
      if (isEnded(release)) return "It ended before its first tick, so nothing was released.";
      return isFuture(options.stream.start) ? `Starts at ${formatMoment(options.stream.start)}.` : "Waiting for the first tick to close.";
    }
    if (lines.length && !shown.length) return "All groups are hidden. Press one above to show it.";
    if (release.discovered && !lines.length && (this.series.ready || this.series.last)) return `No group has passed the threshold yet${release.threshold ? `: at tick ${formatInteger(release.threshold.tick)}, ${release.threshold.text}` : ""}.`;
    return shown.length && shown[0].column.tick.length ? "" : "Loading the released values.";
  }

  /** Return the step between drawn ticks. */
  #step(tick) {
    return Number.isFinite(this.options.range()) ? 1 : tickStep(this.release, this.#ticks(tick));
  }

  /** Return the number of ticks that the chart covers. A step may skip the first one. */
  #ticks(tick) {
    const all = !Number.isFinite(this.options.range()) && tick.length && this.release.ticks;
    return all ? tick.at(-1) - this.release.ticks.from + 1 : countTicks(tick);
  }

  #explainSampling(tick) {
    const n = this.#step(tick);
    const older = n === 1 && tick.length >= maxTicks(this.release) && this.series.first > (this.release.ticks?.from ?? this.series.first);
    this.samplingText.textContent = (n > 1 ? `Every ${formatOrdinal(n)} tick of ${formatCount(this.#ticks(tick), "tick")} is drawn. ` : "")
      + (older ? `Only the newest ${formatCount(tick.length, "tick")} are shown; the CSV has all.` : "");
    show(this.samplingText, this.samplingText.textContent !== "");
  }

  /** Call draw(width), but not under the pointer unless the width or the view has changed. */
  #redraw(drawPlot) {
    const width = this.plot.clientWidth;
    if (this.isHovered && !this.changed && width === this.width) {
      show(this.paused, true);
      return;
    }
    Object.assign(this, { changed: false, width });
    drawPlot(width);
  }

  #chart(shown) {
    this.#redraw((width) => this.#drawLines(shown, width));
  }

  #drawLines(shown, width) {
    const apart = this.view.layout === "apart" && shown.length > 1;
    const columns = width < 480 ? 1 : 2;
    const panels = apart ? shown.length : 1;
    const height = apart ? Math.ceil(panels / columns) * PANEL_PIXELS + 44 : 280;
    if (this.panels !== panels) clearChart(this.plot);
    this.panels = panels;
    this.plot.setAttribute("aria-label", this.#summary(shown));
    const n = this.#step(shown[0].column.tick);
    draw(this.plot, { lines: shown.map((line) => sampleTicks(line, n)), apart, columns, width, height, zoomed: this.zoomed, tick: this.options.stream.tick * this.series.rowTicks });
  }

  #summary(shown) {
    const ticks = shown[0].column.tick;
    const newest = shown.slice(0, 6).map(({ name, column }) => `${name} ${formatCell(column, column.value.length - 1)}`).join("; ");
    return `Chart of ${this.view.measure} over ${formatCount(countTicks(ticks), "tick")}, to tick ${ticks.at(-1)}. Newest: ${newest}. The same numbers are in the table below.`;
  }
}
