// What is known of one release: ticks, each with its places and measures. A tick is kept once, whoever tells it.

export const placeKey = (place) => JSON.stringify(place);

export const placeName = (place) => {
  const labels = Object.entries(place);
  if (labels.length === 0) return "all";
  return labels.length === 1 ? String(labels[0][1]) : labels.map(([column, label]) => `${column} ${label}`).join(", ");
};

const PARTS = ["value", "stddev", "low", "high", "enough"];

export class Series {
  constructor(release) {
    this.release = release;
    this.rows = new Map(); // tick -> {tick, start, end, cells: {measure: Map(key -> {value, ...})}}
    this.places = new Map(); // key -> place, in the order in which they came
    this.sorted = null;
  }

  get last() {
    const ticks = this.ticks();
    return ticks.length ? ticks[ticks.length - 1].tick : 0;
  }

  /** A page of history in the columns form. */
  addColumns(columns) {
    columns.tick.forEach((tick, i) => this.#add(
      tick, columns.start[i], columns.end[i], columns.places, columns.measures, (part) => part[i]));
  }

  /** One tick of the live stream. */
  addTick(event) {
    this.#add(event.tick, event.start, event.end, event.places, event.measures, (part) => part);
  }

  #add(tick, start, end, places, measures, pick) {
    if (this.rows.has(tick)) return;
    const keys = places.map(placeKey);
    places.forEach((place, i) => { if (!this.places.has(keys[i])) this.places.set(keys[i], place); });
    const cells = {};
    for (const [measure, parts] of Object.entries(measures)) {
      const picked = Object.fromEntries(PARTS.filter((name) => parts[name]).map((name) => [name, pick(parts[name])]));
      cells[measure] = new Map(keys.map((key, i) =>
        [key, Object.fromEntries(Object.entries(picked).map(([name, row]) => [name, row[i]]))]));
    }
    this.rows.set(tick, { tick, start, end, cells });
    this.sorted = null;
  }

  /** All rows by tick. */
  ticks() {
    this.sorted ??= [...this.rows.values()].sort((one, other) => one.tick - other.tick);
    return this.sorted;
  }

  /** The ticks missing between the newest that is known without a gap and `tick`. */
  gapBefore(tick) {
    const last = this.last;
    return last && tick > last + 1 ? [last + 1, tick - 1] : null;
  }

  /** The newest `many` ticks of one group: arrays side by side. */
  column(measure, key, many) {
    const rows = this.ticks().slice(-many);
    const cells = rows.map((row) => row.cells[measure]?.get(key) ?? {});
    const column = { tick: rows.map((row) => row.tick), time: rows.map((row) => row.end) };
    for (const part of PARTS) column[part] = cells.map((cell) => cell[part] ?? null);
    return column;
  }
}
