// The history of a release, read in pages; for wide releases only the chosen groups.

import { readPages } from "./api.js";
import { everyNth, MAX_TICKS } from "./tick_sampling.js";

const PAGE_ROWS = 10_000; // rows of a page
const MAX_PAGES = 10; // pages of one release
const TABLE_TICKS = 60; // newest ticks, read without gaps for the table
export const MAX_LIVE_GROUPS = 1000; // groups that the live stream sends

export const isWide = (release) => (release.places ?? 0) > MAX_LIVE_GROUPS;

/** Return the largest number of ticks that is requested. */
export const maxTicks = (release, places = release.places) => Math.max(2, Math.floor((PAGE_ROWS * MAX_PAGES) / Math.max(1, places ?? 1)));

const buildUrl = ({ name }, ...parts) => `/api/releases/${encodeURIComponent(name)}?shape=columns&${parts.filter(Boolean).join("&")}`;

/** Return the step between the ticks that are read and drawn. Rows of periods are few, so all of them are. */
export const tickStep = (release, ticks) => release.row_ticks > 1 ? 1 : everyNth(ticks, isWide(release) ? MAX_TICKS : Math.min(MAX_TICKS, maxTicks(release)));

/** Read ticks {from, to} with a step, or the `last` ones, into a series. `places` are the groups, null for all. */
export async function readHistory(series, { from, to, step = 1, last, places = null }) {
  const { release } = series;
  const spans = from ? buildSpans(from, to, step) : [`last=${Math.min(last, maxTicks(release, places?.length)) * series.rowTicks}`];
  for (const groups of buildFilters(release, places)) {
    for (const ticks of spans) {
      for await (const page of readPages(buildUrl(release, ticks, groups), MAX_PAGES)) series.addColumns(page);
    }
  }
}

/** Return the query strings for the ticks that the step divides, and for the newest ticks. */
function buildSpans(from, to, step) {
  if (step === 1) return [`from=${from}&to=${to}`];
  const first = Math.ceil(from / step) * step;
  return [...(first <= to ? [`from=${first}&to=${to}&step=${step}`] : []), `from=${Math.max(from, to - TABLE_TICKS)}&to=${to}`];
}

/** Read the names of all groups, and the newest value of each by which they are sorted. */
export async function readNames(series) {
  const [measure] = series.release.measures;
  for await (const page of readPages(buildUrl(series.release, "last=1", `measure=${encodeURIComponent(measure)}`), MAX_PAGES)) series.addNames(page, measure);
}

/** Return one filter for all groups if there is one group column, else one filter per group. */
function buildFilters({ groups }, places) {
  if (places === null) return [""];
  const each = places.map((place) => Object.entries(place).map(([column, label]) => `group=${encodeURIComponent(`${column}:${label}`)}`).join("&"));
  return groups.length === 1 && each.length ? [each.join("&")] : each;
}
