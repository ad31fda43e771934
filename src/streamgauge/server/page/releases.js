// All releases: what there is, their histories, and ticks as they come. History is asked for only once the live
// stream is open, so that between the two there is no gap; a tick that both tell is kept once.

import { ask, pages } from "./api.js";
import { byId, el, show } from "./dom.js";
import { count, duration } from "./numbers.js";
import { ReleaseCard } from "./release_card.js";
import { placeKey, Series } from "./series.js";

const RANGES = [60, 300, 1500];
const ROWS = 10_000; // of a page
const WIDEST = 1000; // places that are sent live

export class Releases {
  constructor({ mayEnd, end }) {
    Object.assign(this, { mayEnd, end, cards: new Map(), series: new Map(), truths: new Map(), showsTruth: false, range: RANGES[0] });
    byId("range").addEventListener("change", (event) => this.#widen(Number(event.target.value)));
    byId("truth").addEventListener("change", (event) => { this.showsTruth = event.target.checked; this.#truthOfAll(); });
    document.addEventListener("theme", () => this.redraw());
    document.addEventListener("visibilitychange", () => this.redraw());
  }

  redraw() {
    for (const card of this.cards.values()) card.update();
  }

  /** What there is by now; histories of releases that are new here. */
  async load() {
    const told = await ask("/api/releases");
    this.stream = told.stream;
    this.demo = told.demo;
    this.#tools();
    const names = new Set(told.releases.map((release) => release.name));
    for (const [name, card] of this.cards) if (!names.has(name)) { card.node.remove(); this.cards.delete(name); }
    this.#place(told.releases);
    await Promise.all(told.releases.map((release) => this.#history(release)));
    byId("cards").setAttribute("aria-busy", "false");
    return told;
  }

  /** After a reset: everything is asked for again. */
  clear() {
    for (const card of this.cards.values()) card.node.remove();
    this.cards.clear();
    this.series.clear();
    this.truths.clear();
  }

  #place(releases) {
    const cards = byId("cards");
    for (const waiting of cards.querySelectorAll(".waiting, .none")) waiting.remove();
    if (!releases.length) cards.append(el("p", { class: "none" }, "Nothing is released yet. An analyst can ask for the first release below."));
    for (const release of releases) {
      if ((release.places ?? 0) > WIDEST) this.#tooWide(cards, release);
      else if (this.cards.has(release.name)) this.cards.get(release.name).know(release);
      else cards.append(this.#card(release).node);
    }
  }

  #tooWide(cards, release) {
    if (cards.querySelector(`[data-release="${CSS.escape(release.name)}"]`)) return;
    cards.append(el("article", { class: "card", "data-release": release.name }, el("h3", {}, release.title || release.name),
      el("p", { class: "empty" }, `${count(release.places, "group")}: more than a page can draw. `, el("a", { href: release.href }, "Read them as JSON"))));
  }

  #card(release) {
    const series = new Series(release);
    const truth = (name, measure, key, ticks) => this.#truthAt(name, measure, key, ticks);
    const card = new ReleaseCard(release, series, { range: () => this.range, mayEnd: this.mayEnd, end: this.end, truth });
    this.series.set(release.name, series);
    this.cards.set(release.name, card);
    return card;
  }

  async #history(release, from = 0, to = 0) {
    const series = this.series.get(release.name);
    if (!series || !release.ticks || (!from && series.last >= release.ticks.to && series.rows.size >= this.range)) return;
    const many = Math.max(2, Math.min(this.range + 1, Math.floor(ROWS / Math.max(1, release.places ?? 1))));
    const part = from ? `from=${from}&to=${to}` : `last=${many}`;
    for await (const page of pages(`/api/releases/${encodeURIComponent(release.name)}?shape=columns&${part}`)) series.addColumns(page);
    this.cards.get(release.name)?.update();
    this.#truthOf(release.name);
  }

  /** One tick of the live stream; what a gap left out is asked for. */
  async take(event) {
    const series = this.series.get(event.release);
    if (!series) return;
    const gap = series.gapBefore(event.tick);
    if (event.measures) series.addTick(event);
    this.cards.get(event.release).update();
    if (gap) await this.#history({ ...series.release, ticks: { from: gap[0], to: gap[1] } }, ...gap);
    this.#truthOf(event.release);
  }

  #tools() {
    const select = byId("range");
    if (!select.options.length) {
      for (const ticks of RANGES) select.append(el("option", { value: ticks }, `the last ${duration(ticks * this.stream.tick)}`));
    }
    show(byId("toolbar"), true);
    show(byId("truth-switch"), this.demo);
  }

  async #widen(range) {
    this.range = range;
    for (const card of this.cards.values()) card.refit();
    const known = [...this.series.values()].filter((series) => series.rows.size < range && series.last);
    await Promise.all(known.map((series) => this.#history({ ...series.release, ticks: { from: 1, to: series.last + 1 } })));
  }

  #truthOfAll() {
    for (const name of this.cards.keys()) this.#truthOf(name);
    this.redraw();
  }

  /** The truth of the ticks that are known, as far as it is not: in demonstrations alone. */
  async #truthOf(name) {
    const series = this.series.get(name);
    const ticks = series?.ticks().slice(-this.range - 1) ?? [];
    if (!this.demo || !this.showsTruth || !ticks.length) return;
    const known = this.truths.get(name) ?? new Map();
    this.truths.set(name, known);
    const missing = ticks.map((row) => row.tick).filter((tick) => !known.has(tick));
    if (!missing.length) return;
    const told = await ask(`/api/truth?release=${encodeURIComponent(name)}&from=${missing[0]}&to=${missing.at(-1)}`).catch(() => null);
    const keys = told?.places.map(placeKey) ?? [];
    told?.tick.forEach((tick, i) => known.set(tick, Object.fromEntries(Object.entries(told.measures).map(([measure, { value }]) =>
      [measure, new Map(keys.map((key, j) => [key, value[i][j]]))]))));
    this.cards.get(name)?.update();
  }

  #truthAt(name, measure, key, ticks) {
    if (!this.showsTruth) return null;
    const known = this.truths.get(name);
    return ticks.map((tick) => known?.get(tick)?.[measure]?.get(key) ?? null);
  }
}
