// Times and durations as text. All times are UTC.

import { formatCount } from "./numbers.js";

const UNITS = [[604800, "week"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

const inUnits = (seconds) => {
  const [size, name] = UNITS.find(([size]) => seconds >= size && Number.isInteger(seconds / size)) ?? [1, "second"];
  return [Number((seconds / size).toPrecision(4)), name];
};

/** 90 is "90 seconds", 120 is "2 minutes". */
export const formatDuration = (seconds) => formatCount(...inUnits(seconds));

/** 60 is "the last minute", 120 is "the last 2 minutes". */
export function formatLast(seconds) {
  const [amount, unit] = inUnits(seconds);
  return amount === 1 ? `the last ${unit}` : `the last ${formatCount(amount, unit)}`;
}

/** Format a time to the second. */
export const formatTime = (time) => time.replace("T", " ").replace("Z", "").slice(0, 19);

export const formatMoment = (time) => `${formatTime(time).slice(0, 16)} UTC`;

/** Return the format of the end of a tick in hover text. */
export function hoverTimeFormat(tick) {
  if (tick < 1) return "to %e %b %Y, %H:%M:%S.%3f UTC";
  return tick % 60 ? "to %e %b %Y, %H:%M:%S UTC" : "to %e %b %Y, %H:%M UTC";
}

export const isFuture = (time) => Date.parse(time) > Date.now();
