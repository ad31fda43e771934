// Ranges of the axes of a chart.

const MAX_BAND_FACTOR = 5; // multiple of the median band
const SINGLE_TICK_MARGIN = 4; // ticks before and after a single tick

/** Return the range of the value axis: all values and bands, without bands that are far wider than the median. */
export function valueRange(lines) {
  const halves = lines.flatMap(({ column }) => column.value.map((_, i) => halfWidth(column, i))).filter((width) => width !== null).sort((one, other) => one - other);
  const maxHalfWidth = (halves[Math.floor(halves.length / 2)] ?? 0) * MAX_BAND_FACTOR;
  const shown = lines.flatMap(({ column, truth }) => [...column.value, ...(truth ?? []),
    ...column.value.flatMap((_, i) => (halfWidth(column, i) !== null && halfWidth(column, i) <= maxHalfWidth ? [column.low[i], column.high[i]] : []))])
    .filter((value) => value !== null);
  if (!shown.length) return undefined;
  const [low, high] = shown.reduce(([least, greatest], value) => [Math.min(least, value), Math.max(greatest, value)], [Infinity, -Infinity]);
  const margin = 0.06 * (high - low) || 1;
  return [low - margin, high + margin];
}

/** Return the range of the time axis for a single tick. Otherwise the chart chooses it. */
export function timeRange(lines, tick) {
  const times = lines[0]?.column.time ?? [];
  if (times.length !== 1) return undefined;
  return [-SINGLE_TICK_MARGIN, SINGLE_TICK_MARGIN].map((offset) => new Date(Date.parse(times[0]) + 1000 * offset * tick).toISOString().replace("Z", ""));
}

const halfWidth = (column, i) => (column.high[i] === null || column.low[i] === null ? null : (column.high[i] - column.low[i]) / 2);
