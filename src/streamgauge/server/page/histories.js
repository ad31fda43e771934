// The history of a release, read in pages; for wide releases only the chosen groups.

import { pages } from "./api.js";
import { everyNth, ROOM } from "./tick_sampling.js";

const ROWS = 10_000; // of a page
const PAGES = 10; // at most, of one release
const NEWEST = 60; // ticks without gaps: the rows of the table
export const WIDEST = 1000; // groups that the live stream sends

export const isWide = (release) => (release.places ?? 0) > WIDEST;

/** Maximum number of requested ticks. */
export const roomFor = (release, places = release.places) => Math.max(2, Math.floor((ROWS * PAGES) / Math.max(1, places ?? 1)));

const address = ({ name }, ...parts) => `/api/releases/${encodeURIComponent(name)}?shape=columns&${parts.filter(Boolean).join("&")}`;

/** Step between the ticks that are read and drawn. */
export const stepFor = (release, ticks) => everyNth(ticks, isWide(release) ? ROOM : Math.min(ROOM, roomFor(release)));

/** Read ticks {from, to} with a step, or the newest ones, into a series; for the chosen groups or all. */
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

/** Read all groups, without their numbers. */
export async function readNames(series) {
  for await (const page of pages(address(series.release, "last=1", `measure=${encodeURIComponent(series.release.measures[0])}`), PAGES)) series.know(page.places);
}

/** One filter for all chosen groups if there is one column, else one for each group. */
function filters({ groups }, places) {
  if (places === null) return [""];
  const each = places.map((place) => Object.entries(place).map(([column, label]) => `group=${encodeURIComponent(`${column}:${label}`)}`).join("&"));
  return groups.length === 1 && each.length ? [each.join("&")] : each;
}
