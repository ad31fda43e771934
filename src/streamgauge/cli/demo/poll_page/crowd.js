// Estimates for the crowd: for every emoji a value with its interval, and the truth if requested.

import { request } from "/page/api.js";
import { byId, choice, el, show } from "/page/dom.js";
import { formatNumber, formatInterval } from "/page/numbers.js";
import { emojiName, emojiPicture } from "./signs.js";

const WINDOWS = [["favourites", "Since the start"], ["favourites_now", "Last minute"]];

export class Crowd {
  constructor() {
    Object.assign(this, { column: null, shown: WINDOWS[0][0], newest: new Map(), drawn: 0, rows: new Map() });
    byId("windows").replaceChildren(choice("Window", WINDOWS, this.shown, (name) => { this.shown = name; this.draw(); }));
    byId("truth").addEventListener("change", () => this.draw());
  }

  /** Set the items of the poll. */
  setItems(items, column) {
    this.column = column;
    this.newest.clear();
    this.rows = new Map(items.map((item) => [item, this.#buildRow(item)]));
    byId("rows").replaceChildren(...[...this.rows.values()].map(({ node }) => node));
  }

  /** Load the newest tick of both windows. The server may have restarted, so older ticks are dropped. */
  async load() {
    this.newest.clear();
    await Promise.all(WINDOWS.map(async ([name]) => {
      const result = await request(`/api/releases/${name}?shape=columns&last=1`);
      if (!result.tick.length) return;
      const count = Object.entries(result.measures.count).map(([part, rows]) => [part, rows[0]]);
      this.addTick({ release: name, tick: result.tick[0], places: result.places, measures: { count: Object.fromEntries(count) } });
    }));
  }

  /** Add a tick of the live stream. */
  addTick(event) {
    if (event.tick < (this.newest.get(event.release)?.tick ?? 0)) return;
    this.newest.set(event.release, event);
    if (event.release === this.shown) this.draw();
  }

  /** Mark the local pick. It is known to this page only. */
  mark(item) {
    for (const [each, { node }] of this.rows) node.classList.toggle("yours", each === item);
  }

  async draw() {
    const event = this.newest.get(this.shown);
    if (!event) return;
    const withTruth = byId("truth").checked;
    const drawing = (this.drawn += 1);
    const truth = withTruth ? await this.#loadTruth(event) : null;
    if (drawing !== this.drawn) return;
    for (const part of document.querySelectorAll(".of-truth, #of-truth")) show(part, withTruth);
    const { value, low, high } = event.measures.count;
    const largest = Math.max(1, ...high, ...(truth?.values() ?? []));
    event.places.forEach((place, i) => {
      const item = String(place[this.column]);
      this.rows.get(item)?.update({ value: value[i], low: low[i], high: high[i], truth: truth?.get(item) ?? null, largest });
    });
    byId("crowd-when").textContent = `Tick ${event.tick.toLocaleString("en-GB")}: a tick is one second, with reports of about 2,000 devices.`;
  }

  async #loadTruth({ release, tick }) {
    const result = await request(`/api/truth?release=${release}&from=${tick}&to=${tick}`).catch(() => null);
    return result && new Map(result.places.map((place, j) => [String(place[this.column]), result.measures.count.value[0][j]]));
  }

  #buildRow(item) {
    const bar = el("div", { class: "estimate", "aria-hidden": "true" }, el("i", { class: "fill" }), el("i", { class: "bracket" }), el("i", { class: "truth", hidden: true }));
    const [estimate, truthCell] = [el("td", { class: "n" }), el("td", { class: "n of-truth", hidden: true })];
    const head = el("th", { scope: "row" }, emojiPicture(item), el("span", { class: "name" }, emojiName(item)));
    const update = ({ value, low, high, truth, largest }) => {
      const at = (number) => String(Math.min(1, Math.max(0, number / largest)));
      for (const [name, number] of Object.entries({ value, low, high, truth: truth ?? 0 })) bar.style.setProperty(`--${name}`, at(number));
      show(bar.lastChild, truth !== null);
      estimate.textContent = formatInterval(value, low, high);
      truthCell.textContent = truth === null ? "" : formatNumber(truth);
    };
    return { node: el("tr", { "data-item": emojiName(item) }, head, el("td", {}, bar), estimate, truthCell), update };
  }
}
