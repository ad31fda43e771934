// Estimates for the crowd: a value for every emoji, its bracket, and in this demo the truth.

import { ask } from "/page/api.js";
import { byId, choice, el, show } from "/page/dom.js";
import { plain, within } from "/page/numbers.js";
import { named, sign } from "./signs.js";

const WINDOWS = [["favourites", "Since the start"], ["favourites_now", "Last minute"]];

export class Crowd {
  constructor() {
    Object.assign(this, { column: null, shown: WINDOWS[0][0], newest: new Map(), drawn: 0, rows: new Map() });
    byId("windows").replaceChildren(choice("Window", WINDOWS, this.shown, (name) => { this.shown = name; this.draw(); }));
    byId("truth").addEventListener("change", () => this.draw());
  }

  /** Set the items of the poll. */
  begin(items, column) {
    this.column = column;
    this.newest.clear();
    this.rows = new Map(items.map((item) => [item, this.#row(item)]));
    byId("rows").replaceChildren(...[...this.rows.values()].map(({ node }) => node));
  }

  /** Read the newest tick of both windows: at the start, and after a break, after which ticks may restart. */
  async load() {
    this.newest.clear();
    await Promise.all(WINDOWS.map(async ([name]) => {
      const told = await ask(`/api/releases/${name}?shape=columns&last=1`);
      if (!told.tick.length) return;
      const count = Object.entries(told.measures.count).map(([part, rows]) => [part, rows[0]]);
      this.take({ release: name, tick: told.tick[0], places: told.places, measures: { count: Object.fromEntries(count) } });
    }));
  }

  /** A tick as the live stream has it. */
  take(event) {
    if (event.tick < (this.newest.get(event.release)?.tick ?? 0)) return;
    this.newest.set(event.release, event);
    if (event.release === this.shown) this.draw();
  }

  /** Mark the local pick, on this page only. */
  mark(item) {
    for (const [each, { node }] of this.rows) node.classList.toggle("yours", each === item);
  }

  async draw() {
    const event = this.newest.get(this.shown);
    if (!event) return;
    const wanted = byId("truth").checked;
    const turn = (this.drawn += 1);
    const truth = wanted ? await this.#truth(event) : null;
    if (turn !== this.drawn) return;
    for (const part of document.querySelectorAll(".of-truth, #of-truth")) show(part, wanted);
    const { value, low, high } = event.measures.count;
    const widest = Math.max(1, ...high, ...(truth?.values() ?? []));
    event.places.forEach((place, i) => {
      const item = String(place[this.column]);
      this.rows.get(item)?.tell({ value: value[i], low: low[i], high: high[i], truth: truth?.get(item) ?? null, widest });
    });
    byId("crowd-when").textContent = `Tick ${event.tick.toLocaleString("en-GB")}: a tick is a second, and some 2,000 devices report in it.`;
  }

  async #truth({ release, tick }) {
    const told = await ask(`/api/truth?release=${release}&from=${tick}&to=${tick}`).catch(() => null);
    return told && new Map(told.places.map((place, j) => [String(place[this.column]), told.measures.count.value[0][j]]));
  }

  #row(item) {
    const drawn = el("div", { class: "estimate", "aria-hidden": "true" }, el("i", { class: "fill" }), el("i", { class: "bracket" }), el("i", { class: "truth", hidden: true }));
    const [told, real] = [el("td", { class: "n" }), el("td", { class: "n of-truth", hidden: true })];
    const head = el("th", { scope: "row" }, sign(item), el("span", { class: "name" }, named(item)));
    const tell = ({ value, low, high, truth, widest }) => {
      const at = (number) => String(Math.min(1, Math.max(0, number / widest)));
      for (const [name, number] of Object.entries({ value, low, high, truth: truth ?? 0 })) drawn.style.setProperty(`--${name}`, at(number));
      show(drawn.lastChild, truth !== null);
      told.textContent = within(value, low, high);
      real.textContent = truth === null ? "" : plain(truth);
    };
    return { node: el("tr", { "data-item": named(item) }, head, el("td", {}, drawn), told, real), tell };
  }
}
