// The known ticks of one release, with groups and measures. A value from history and the live stream is stored once.

export const placeKey = (place) => JSON.stringify(place);

/** Return the name of a group, such as "north, all kinds": "all" marks columns that the group sums. */
export function placeName(place, columns) {
  if (Object.keys(place).length === 0) return "all";
  return columns.map((column) => (column in place ? String(place[column]) : `all ${pluralize(column)}`)).join(", ");
}

const pluralize = (noun) => (noun.endsWith("s") ? noun : noun.replace(/([^aeiou])y$/, "$1ie").concat("s"));

const PARTS = ["value", "stddev", "low", "high", "reliable"];

export class Series {
  constructor(release) {
    this.release = release;
    this.rows = new Map(); // tick -> {tick, start, end, ranks: Map(key -> rank), cells: {measure: Map(key -> {value, ...})}}
    this.places = new Map(); // key -> place, in the order of arrival
    this.sizes = new Map(); // key -> {value, low, high} when the names were read, if there are too many groups for a history
    this.sorted = null;
    this.ready = false; // true after the history was read
  }

  get first() {
    return this.ticks()[0]?.tick ?? 0;
  }

  get last() {
    return this.ticks().at(-1)?.tick ?? 0;
  }

  /** Add groups. Their values may follow later. */
  addPlaces(places) {
    for (const place of places) this.places.set(placeKey(place), place);
  }

  /** Add groups with the value of each at one tick, which is no part of the history. */
  addNames({ places, measures, tick }, measure) {
    this.addPlaces(places);
    const { value, low, high } = measures[measure];
    if (tick.length) places.forEach((place, i) => this.sizes.set(placeKey(place), { value: value[0][i], low: low[0][i], high: high[0][i] }));
  }

  /** Add a page of history, by columns. */
  addColumns(columns) {
    this.addPlaces(columns.places);
    columns.tick.forEach((tick, i) => this.#add(
      tick, columns.start[i], columns.end[i], columns.places, columns.measures, (part) => part[i], columns.ranks?.[i]));
  }

  /** Add a tick of the live stream. */
  addTick(event) {
    this.addPlaces(event.places);
    this.#add(event.tick, event.start, event.end, event.places, event.measures, (part) => part, event.ranks);
  }

  #add(tick, start, end, places, measures, pick, ranks = []) {
    if (!this.rows.has(tick)) {
      this.rows.set(tick, { tick, start, end, ranks: new Map(), cells: {} });
      this.sorted = null;
    }
    const { cells, ranks: known } = this.rows.get(tick);
    const keys = places.map(placeKey);
    ranks.forEach((rank, i) => { if (rank !== null) known.set(keys[i], rank); });
    for (const [measure, parts] of Object.entries(measures)) {
      const picked = PARTS.filter((name) => parts[name]).map((name) => [name, pick(parts[name])]);
      const column = (cells[measure] ??= new Map());
      keys.forEach((key, i) => { if (!column.has(key)) column.set(key, Object.fromEntries(picked.map(([name, row]) => [name, row[i]]))); });
    }
  }

  /** Return all rows in the order of ticks. */
  ticks() {
    this.sorted ??= [...this.rows.values()].sort((one, other) => one.tick - other.tick);
    return this.sorted;
  }

  /** Return the usual number of ticks from one row to the next: more than 1 if the release has a row for each period. */
  get rowTicks() {
    return this.release.row_ticks ?? 1;
  }

  /** Return the first and last missing tick before `tick`, or null. Periods differ in length by less than a half. */
  gapBefore(tick) {
    const last = this.last;
    return last && tick > last + 1.5 * this.rowTicks ? [last + 1, tick - 1] : null;
  }

  /** Return {key, name, depth, rank, value, error} of all groups, totals first; the last three at the newest tick. */
  groups(measure) {
    const newest = this.ticks().at(-1);
    const groups = [...this.places].map(([key, place]) => {
      const { value, low, high } = newest?.cells[measure]?.get(key) ?? this.sizes.get(key) ?? {};
      const name = placeName(place, this.release.groups ?? Object.keys(place));
      return { key, name, depth: Object.keys(place).length, rank: newest?.ranks.get(key), value, error: (high - low) / 2 };
    });
    return groups.sort((one, other) => one.depth - other.depth);
  }

  /** Return the rows of the newest `count` ticks or periods. */
  newest(count) {
    return this.ticks().filter((row) => row.tick > this.last - count * this.rowTicks);
  }

  /** Return the newest `count` ticks or periods of one group as arrays. */
  column(measure, key, count) {
    const rows = this.newest(count);
    const cells = rows.map((row) => row.cells[measure]?.get(key) ?? {});
    const column = { tick: rows.map((row) => row.tick), time: rows.map((row) => row.end) };
    for (const part of PARTS) column[part] = cells.map((cell) => cell[part] ?? null);
    return column;
  }
}
