// The truth of a demo beside its releases; read only while it is switched on.

import { ask } from "./api.js";
import { byId, show } from "./dom.js";
import { placeKey } from "./series.js";

const MOST = 5000; // ticks of one request

export class Truths {
  /** changed(): the truth was switched on or off. */
  constructor(changed) {
    Object.assign(this, { known: new Map(), shown: false });
    byId("truth").addEventListener("change", (event) => {
      this.shown = event.target.checked;
      for (const part of document.querySelectorAll(".of-truth")) show(part, this.shown);
      changed();
    });
  }

  clear() {
    this.known.clear();
  }

  /** Read the missing truth of some ticks; return whether any was missing. */
  async load(name, ticks) {
    if (!this.shown || !ticks.length) return false;
    const known = this.known.get(name) ?? new Map();
    this.known.set(name, known);
    const missing = ticks.filter((tick) => !known.has(tick)).slice(-MOST);
    if (!missing.length) return false;
    const told = await ask(`/api/truth?release=${encodeURIComponent(name)}&from=${Math.max(missing[0], missing.at(-1) - MOST)}&to=${missing.at(-1)}`).catch(() => null);
    const keys = told?.places.map(placeKey) ?? [];
    told?.tick.forEach((tick, i) => known.set(tick, Object.fromEntries(Object.entries(told.measures).map(([measure, { value }]) =>
      [measure, new Map(keys.map((key, j) => [key, value[i][j]]))]))));
    return true;
  }

  at(name, measure, key, ticks) {
    if (!this.shown) return null;
    const known = this.known.get(name);
    return ticks.map((tick) => known?.get(tick)?.[measure]?.get(key) ?? null);
  }
}
