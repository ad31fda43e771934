// The true values of a demo, loaded only while their switch is on.

import { request } from "./api.js";
import { byId, show } from "./dom.js";
import { placeKey } from "./series.js";

const MAX_TICKS = 5000; // ticks per request

export class Truths {
  /** changed(): the user turned the switch. */
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

  /** Load the true values of ticks that lack them. Return whether any were missing. */
  async load(name, ticks) {
    if (!this.shown || !ticks.length) return false;
    const known = this.known.get(name) ?? new Map();
    this.known.set(name, known);
    const missing = ticks.filter((tick) => !known.has(tick)).slice(-MAX_TICKS);
    if (!missing.length) return false;
    const result = await request(`/api/truth?release=${encodeURIComponent(name)}&from=${Math.max(missing[0], missing.at(-1) - MAX_TICKS)}&to=${missing.at(-1)}`).catch(() => null);
    const keys = result?.places.map(placeKey) ?? [];
    result?.tick.forEach((tick, i) => known.set(tick, Object.fromEntries(Object.entries(result.measures).map(([measure, { value }]) =>
      [measure, new Map(keys.map((key, j) => [key, value[i][j]]))]))));
    return true;
  }

  find(name, measure, key, ticks) {
    if (!this.shown) return null;
    const known = this.known.get(name);
    return ticks.map((tick) => known?.get(tick)?.[measure]?.get(key) ?? null);
  }
}
