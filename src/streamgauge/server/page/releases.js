// All releases: the list, their histories, and live ticks. History is read after the live stream is open, so there is
// no gap between them; a tick of both is stored once.

import { ask } from "./api.js";
import { byId, el, show } from "./dom.js";
import { isWide, read, readNames, stepFor } from "./histories.js";
import { ReleaseCard } from "./release_card.js";
import { Series } from "./series.js";
import { theLast } from "./times.js";
import { Truths } from "./truths.js";

const RANGES = [60, 300, 1500];

const ticksIn = ({ from, to }) => to - from + 1;

export class Releases {
  constructor({ mayEnd, end }) {
    Object.assign(this, { mayEnd, end, cards: new Map(), series: new Map(), range: RANGES[0] });
    this.truths = new Truths(() => this.#truthOfAll());
    byId("range").addEventListener("change", (event) => this.#widen(Number(event.target.value)));
    document.addEventListener("theme", () => this.redraw());
    document.addEventListener("visibilitychange", () => this.redraw());
  }

  redraw() {
    for (const card of this.cards.values()) card.update();
  }

  /** Update the list, and read histories of new releases. */
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

  /** Show that the first load failed. */
  failed(reason, retry) {
    const again = el("button", { type: "button", class: "main", click: retry }, "Retry");
    byId("cards").replaceChildren(el("div", { class: "none failed", role: "alert" }, el("p", {}, `The releases could not be loaded: ${reason}.`), again));
    byId("cards").setAttribute("aria-busy", "false");
  }

  /** Read everything again after a reset. */
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
      if (this.cards.has(release.name)) this.cards.get(release.name).know(release);
      else cards.append(this.#card(release).node);
    }
  }

  #card(release) {
    const series = new Series(release);
    const { name } = release;
    const wide = isWide(release) && {
      names: async () => { await readNames(series); this.cards.get(name)?.update(); },
      chosen: (key) => this.#fill(series, this.#wanted(series, [series.places.get(key)])),
    };
    const truth = (...asked) => this.truths.at(...asked);
    const card = new ReleaseCard(release, series, { stream: this.stream, range: () => this.range, mayEnd: this.mayEnd, end: this.end, truth, ...wide });
    this.series.set(name, series);
    this.cards.set(name, card);
    return card;
  }

  /** Chosen groups of a wide release; null means all groups. */
  #places(release) {
    if (!isWide(release)) return null;
    const series = this.series.get(release.name);
    return this.cards.get(release.name).groups.shown.map(({ key }) => series.places.get(key));
  }

  async #history(release) {
    const series = this.series.get(release.name);
    if (!release.ticks) return;
    const what = this.#wanted(series, this.#places(release), release.ticks);
    const known = what.step ? series.step <= what.step : series.newest(what.last).length >= Math.min(what.last, ticksIn(release.ticks));
    if (series.last >= release.ticks.to && known) return;
    await this.#fill(series, what);
    series.step = what.step ?? series.step;
    series.ready = true;
    this.cards.get(release.name)?.update();
  }

  /** Ticks to read for the chosen range, with a step for long histories. */
  #wanted(series, places, ticks = this.#span({ release: series.release, series })) {
    if (Number.isFinite(this.range) || !ticks) return { last: this.range, places };
    return { ...ticks, step: stepFor(series.release, ticksIn(ticks)), places };
  }

  async #fill(series, what) {
    await read(series, what);
    const { name } = series.release;
    this.cards.get(name)?.update();
    await this.#truthOf(name);
  }

  /** Add a live tick; read missing ticks, and ticks that came without numbers. */
  async take(event) {
    const series = this.series.get(event.release);
    if (!series) return;
    const gap = series.gapBefore(event.tick);
    if (event.measures) series.addTick(event);
    this.cards.get(event.release).update();
    const missing = event.measures ? gap : [gap?.[0] ?? event.tick, event.tick];
    if (missing) await this.#fill(series, { from: missing[0], to: missing[1], places: this.#places(series.release) });
    else await this.#truthOf(event.release);
  }

  #tools() {
    const select = byId("range");
    if (!select.options.length) {
      for (const ticks of RANGES) select.append(el("option", { value: ticks }, theLast(ticks * this.stream.tick)));
      select.append(el("option", { value: "Infinity" }, "all of it"));
    }
    show(byId("toolbar"), true);
    show(byId("truth-switch"), this.demo);
  }

  async #widen(range) {
    this.range = range;
    for (const card of this.cards.values()) card.refit();
    await Promise.all([...this.cards.values()].map((card) => this.#history({ ...card.release, ticks: this.#span(card) })));
  }

  /** Published ticks: the list may be older than the newest tick. */
  #span({ release, series }) {
    const from = release.ticks?.from ?? series.first;
    return from ? { from, to: Math.max(series.last, release.ticks?.to ?? 0) } : null;
  }

  #truthOfAll() {
    for (const name of this.cards.keys()) this.#truthOf(name);
    this.redraw();
  }

  async #truthOf(name) {
    const ticks = this.series.get(name)?.ticks() ?? [];
    const shown = Number.isFinite(this.range) ? ticks.slice(-this.range) : ticks;
    if (this.demo && await this.truths.load(name, shown.map((row) => row.tick))) this.cards.get(name)?.update();
  }
}
