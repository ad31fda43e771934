// What a release has told so far, asked for in pages: of wide releases for the groups that were chosen alone.

import { pages } from "./api.js";
import { everyNth, ROOM } from "./thinning.js";

const ROWS = 10_000; // of a page
const PAGES = 10; // at most, of one release
const NEWEST = 60; // ticks of which none is left out: as many as the table has
export const WIDEST = 1000; // places that are sent live

export const isWide = (release) => (release.places ?? 0) > WIDEST;

/** How many ticks are asked for at most. */
export const roomFor = (release, places = release.places) => Math.max(2, Math.floor((ROWS * PAGES) / Math.max(1, places ?? 1)));

const address = ({ name }, ...parts) => `/api/releases/${encodeURIComponent(name)}?shape=columns&${parts.filter(Boolean).join("&")}`;

/** Of how many ticks one is read and drawn where all of so many are wanted. */
export const stepFor = (release, ticks) => everyNth(ticks, isWide(release) ? ROOM : Math.min(ROOM, roomFor(release)));

/** Reads into a series: ticks {from, to}, every so many of them, or the newest so many; of places that were chosen, or of all. */
export async function read(series, { from, to, step = 1, last, places = null }) {
  const { release } = series;
  const spans = from ? stepped(from, to, step) : [`last=${Math.min(last, roomFor(release, places?.length))}`];
  for (const groups of filters(release, places)) {
    for (const ticks of spans) {
      for await (const page of pages(address(release, ticks, groups), PAGES)) series.addColumns(page);
    }
  }
}

/** The ticks that a step divides, and the newest. */
function stepped(from, to, step) {
  if (step === 1) return [`from=${from}&to=${to}`];
  const first = Math.ceil(from / step) * step;
  return [...(first <= to ? [`from=${first}&to=${to}&step=${step}`] : []), `from=${Math.max(from, to - NEWEST)}&to=${to}`];
}

/** All places that there are, with nothing of their numbers kept. */
export async function readNames(series) {
  for await (const page of pages(address(series.release, "last=1", `measure=${encodeURIComponent(series.release.measures[0])}`), PAGES)) series.know(page.places);
}

/** One filter for all that was chosen where there is one column, else one for each place. */
function filters({ groups }, places) {
  if (places === null) return [""];
  const each = places.map((place) => Object.entries(place).map(([column, label]) => `group=${encodeURIComponent(`${column}:${label}`)}`).join("&"));
  return groups.length === 1 && each.length ? [each.join("&")] : each;
}
