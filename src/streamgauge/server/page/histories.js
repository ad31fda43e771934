// What a release has told so far, asked for in pages: of wide releases for the groups that were chosen alone.

import { pages } from "./api.js";

const ROWS = 10_000; // of a page
const PAGES = 10; // at most, of one release
export const WIDEST = 1000; // places that are sent live

export const isWide = (release) => (release.places ?? 0) > WIDEST;

/** How many ticks are asked for at most. */
export const roomFor = (release, places = release.places) => Math.max(2, Math.floor((ROWS * PAGES) / Math.max(1, places ?? 1)));

const address = ({ name }, ...parts) => `/api/releases/${encodeURIComponent(name)}?shape=columns&${parts.filter(Boolean).join("&")}`;

/** Reads into a series: ticks {from, to}, or the newest so many, of places that were chosen, or of all. */
export async function read(series, { from, to, last, places = null }) {
  const { release } = series;
  const ticks = from ? `from=${from}&to=${to}` : `last=${Math.min(last, roomFor(release, places?.length))}`;
  for (const groups of filters(release, places)) {
    for await (const page of pages(address(release, ticks, groups), PAGES)) series.addColumns(page);
  }
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
