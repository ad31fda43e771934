// Times and durations as text. All times are UTC, and say so.

import { count } from "./numbers.js";

const UNITS = [[604800, "week"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

const inUnits = (seconds) => {
  const [size, name] = UNITS.find(([size]) => seconds >= size && Number.isInteger(seconds / size)) ?? [1, "second"];
  return [Number((seconds / size).toPrecision(4)), name];
};

/** 90 is "90 seconds", 120 is "2 minutes". */
export const duration = (seconds) => count(...inUnits(seconds));

/** 60 is "the last minute", 120 is "the last 2 minutes". */
export function theLast(seconds) {
  const [many, unit] = inUnits(seconds);
  return many === 1 ? `the last ${unit}` : `the last ${count(many, unit)}`;
}

/** The end of a tick, to the second where ticks are shorter than a minute. */
export const clock = (time) => time.replace("T", " ").replace("Z", "").slice(0, 19);

export const moment = (time) => `${clock(time).slice(0, 16)} UTC`;

/** Format of the end of a tick in the hover text of a chart. */
export function pointedFormat(tick) {
  if (tick < 1) return "to %e %b %Y, %H:%M:%S.%3f UTC";
  return tick % 60 ? "to %e %b %Y, %H:%M:%S UTC" : "to %e %b %Y, %H:%M UTC";
}

export const isAhead = (time) => Date.parse(time) > Date.now();
