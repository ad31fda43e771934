// All releases: the list, histories, and live ticks. The page reads history after the live stream is open, so there is no
// gap between them. A tick from both is stored once.

import { request } from "./api.js";
import { byId, el, show } from "./dom.js";
import { isWide, readHistory, readNames, tickStep } from "./histories.js";
import { formatCount } from "./numbers.js";
import { ReleaseCard } from "./release_card.js";
import { Series } from "./series.js";
import { formatLast } from "./times.js";
import { Truths } from "./truths.js";

const RANGE_TICKS = [60, 300, 1500];

/** Return so many ticks as a time, or as rows if a release has rows of another length. */
function rangeText(ticks, tick) {
  if (ticks === Infinity) return tick ? "all ticks" : "all rows";
  return tick ? formatLast(ticks * tick) : `the last ${formatCount(ticks, "row")}`;
}

const countTicks = ({ from, to }) => to - from + 1;

/** Return the least number of rows in a range of ticks. */
const countRows = (series, ticks) => (series.rowTicks > 1 ? Math.floor(0.9 * countTicks(ticks) / series.rowTicks) : countTicks(ticks));

export class Releases {
  constructor({ mayEnd, end }) {
    Object.assign(this, { mayEnd, end, cards: new Map(), series: new Map(), range: RANGE_TICKS[0] });
    this.truths = new Truths(() => this.#loadAllTruths());
    byId("range").addEventListener("change", (event) => this.#setRange(Number(event.target.value)));
    document.addEventListener("theme", () => this.redraw());
    document.addEventListener("visibilitychange", () => this.redraw());
  }

  redraw() {
    for (const card of this.cards.values()) card.update();
  }

  /** Update the list, and read histories of new releases. */
  async load() {
    const list = await request("/api/releases");
    this.stream = list.stream;
    this.demo = list.demo;
    this.#showControls(list.releases);
    const names = new Set(list.releases.map((release) => release.name));
    for (const [name, card] of this.cards) if (!names.has(name)) { card.node.remove(); this.cards.delete(name); }
    this.#placeCards(list.releases);
    await Promise.all(list.releases.map((release) => this.#loadHistory(release)));
    byId("cards").setAttribute("aria-busy", "false");
    return list;
  }

  /** Show that the first load failed. */
  showFailure(reason, retry) {
    const button = el("button", { type: "button", class: "main", click: retry }, "Retry");
    byId("cards").replaceChildren(el("div", { class: "none failed", role: "alert" }, el("p", {}, `The releases could not be loaded: ${reason}.`), button));
    byId("cards").setAttribute("aria-busy", "false");
  }

  /** Remove everything, so that it is read again after a reset. */
  clear() {
    for (const card of this.cards.values()) card.node.remove();
    this.cards.clear();
    this.series.clear();
    this.truths.clear();
  }

  #placeCards(releases) {
    const cards = byId("cards");
    for (const waiting of cards.querySelectorAll(".waiting, .none")) waiting.remove();
    if (!releases.length) cards.append(el("p", { class: "none" }, "There are no releases yet. An analyst can request the first one below."));
    for (const release of releases) {
      if (this.cards.has(release.name)) this.cards.get(release.name).setRelease(release);
      else cards.append(this.#buildCard(release).node);
    }
  }

  #buildCard(release) {
    const series = new Series(release);
    const { name } = release;
    const wide = isWide(release) && {
      loadNames: async () => { await readNames(series); this.cards.get(name)?.update(); },
      loadGroup: (key) => this.#load(series, this.#buildQuery(series, [series.places.get(key)])),
    };
    const truth = (...place) => this.truths.find(...place);
    const card = new ReleaseCard(release, series, { stream: this.stream, range: () => this.range, mayEnd: this.mayEnd, end: this.end, truth, ...wide });
    this.series.set(name, series);
    this.cards.set(name, card);
    return card;
  }

  /** Return the visible groups of a wide release, or null for all groups. */
  #places(release) {
    if (!isWide(release)) return null;
    const series = this.series.get(release.name);
    return this.cards.get(release.name).groups.visible.map(({ key }) => series.places.get(key));
  }

  async #loadHistory(release) {
    const series = this.series.get(release.name);
    if (!release.ticks) return;
    const query = this.#buildQuery(series, this.#places(release), release.ticks);
    const known = query.step ? series.step <= query.step : series.newest(query.last).length >= Math.min(query.last, countRows(series, release.ticks));
    if (series.last >= release.ticks.to && known) return;
    await this.#load(series, query);
    series.step = query.step ?? series.step;
    series.ready = true;
    this.cards.get(release.name)?.update();
  }

  /** Return the ticks to read for the selected range, with a step for long histories. */
  #buildQuery(series, places, ticks = this.#publishedTicks({ release: series.release, series })) {
    if (Number.isFinite(this.range) || !ticks) return { last: this.range, places };
    return { ...ticks, step: tickStep(series.release, countTicks(ticks)), places };
  }

  async #load(series, query) {
    await readHistory(series, query);
    const { name } = series.release;
    this.cards.get(name)?.update();
    await this.#loadTruth(name);
  }

  /** Add a live tick. Read missing ticks, and ticks that arrive without values. */
  async addTick(event) {
    const series = this.series.get(event.release);
    if (!series) return;
    const gap = series.gapBefore(event.tick);
    if (event.measures) series.addTick(event);
    this.cards.get(event.release).update();
    const missing = event.measures ? gap : [gap?.[0] ?? event.tick, event.tick];
    if (missing) await this.#load(series, { from: missing[0], to: missing[1], places: this.#places(series.release) });
    else await this.#loadTruth(event.release);
  }

  #showControls(releases) {
    const select = byId("range");
    if (!select.options.length) {
      for (const ticks of [...RANGE_TICKS, Infinity]) select.append(el("option", { value: ticks }));
    }
    const hasPeriods = releases.some(({ row_ticks }) => row_ticks > 1);
    for (const option of select.options) option.textContent = rangeText(Number(option.value), hasPeriods ? null : this.stream.tick);
    show(byId("toolbar"), true);
    show(byId("truth-switch"), this.demo);
  }

  async #setRange(range) {
    this.range = range;
    for (const card of this.cards.values()) card.refit();
    await Promise.all([...this.cards.values()].map((card) => this.#loadHistory({ ...card.release, ticks: this.#publishedTicks(card) })));
  }

  /** Return the range of published ticks. The list may be older than the newest tick. */
  #publishedTicks({ release, series }) {
    const from = release.ticks?.from ?? series.first;
    return from ? { from, to: Math.max(series.last, release.ticks?.to ?? 0) } : null;
  }

  #loadAllTruths() {
    for (const name of this.cards.keys()) this.#loadTruth(name);
    this.redraw();
  }

  async #loadTruth(name) {
    const ticks = this.series.get(name)?.ticks() ?? [];
    const shown = Number.isFinite(this.range) ? ticks.slice(-this.range) : ticks;
    if (this.demo && await this.truths.load(name, shown.map((row) => row.tick))) this.cards.get(name)?.update();
  }
}
