// The known ticks of one release, with groups and measures. Each number is stored once, whatever its source.

export const placeKey = (place) => JSON.stringify(place);

/** "north, all kinds": a label for each group column; "all" for columns that are summed over. */
export function placeName(place, columns) {
  if (Object.keys(place).length === 0) return "all";
  return columns.map((column) => (column in place ? String(place[column]) : `all ${several(column)}`)).join(", ");
}

const several = (noun) => (noun.endsWith("s") ? noun : noun.replace(/([^aeiou])y$/, "$1ie").concat("s"));

const PARTS = ["value", "stddev", "low", "high", "reliable"];

export class Series {
  constructor(release) {
    this.release = release;
    this.rows = new Map(); // tick -> {tick, start, end, cells: {measure: Map(key -> {value, ...})}}
    this.places = new Map(); // key -> place, in the order of arrival
    this.sorted = null;
    this.ready = false; // true after the history was read
  }

  get first() {
    return this.ticks()[0]?.tick ?? 0;
  }

  get last() {
    return this.ticks().at(-1)?.tick ?? 0;
  }

  /** Add groups whose numbers may come later. */
  know(places) {
    for (const place of places) this.places.set(placeKey(place), place);
  }

  /** A page of history in the columns form. */
  addColumns(columns) {
    this.know(columns.places);
    columns.tick.forEach((tick, i) => this.#add(
      tick, columns.start[i], columns.end[i], columns.places, columns.measures, (part) => part[i]));
  }

  /** One tick of the live stream. */
  addTick(event) {
    this.know(event.places);
    this.#add(event.tick, event.start, event.end, event.places, event.measures, (part) => part);
  }

  #add(tick, start, end, places, measures, pick) {
    if (!this.rows.has(tick)) {
      this.rows.set(tick, { tick, start, end, cells: {} });
      this.sorted = null;
    }
    const { cells } = this.rows.get(tick);
    const keys = places.map(placeKey);
    for (const [measure, parts] of Object.entries(measures)) {
      const picked = PARTS.filter((name) => parts[name]).map((name) => [name, pick(parts[name])]);
      const known = (cells[measure] ??= new Map());
      keys.forEach((key, i) => { if (!known.has(key)) known.set(key, Object.fromEntries(picked.map(([name, row]) => [name, row[i]]))); });
    }
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

  /** {key, name} of all places: totals first. */
  groups() {
    const totals = [...this.places].sort(([, one], [, other]) => Object.keys(one).length - Object.keys(other).length);
    return totals.map(([key, place]) => ({ key, name: placeName(place, this.release.groups ?? Object.keys(place)) }));
  }

  /** The newest `many` known ticks. */
  newest(many) {
    return this.ticks().filter((row) => row.tick > this.last - many);
  }

  /** The newest `many` ticks of one group: arrays side by side. */
  column(measure, key, many) {
    const rows = this.newest(many);
    const cells = rows.map((row) => row.cells[measure]?.get(key) ?? {});
    const column = { tick: rows.map((row) => row.tick), time: rows.map((row) => row.end) };
    for (const part of PARTS) column[part] = cells.map((cell) => cell[part] ?? null);
    return column;
  }
}
