// Ranges of the axes of a chart.

const WIDE = 5; // times the usual band
const ALONE = 4; // ticks around a single one

/** Value axis: all values and bands, except bands far wider than most, such as those of first ticks. */
export function ofNumbers(lines) {
  const halves = lines.flatMap(({ column }) => column.value.map((_, i) => half(column, i))).filter((width) => width !== null).sort((one, other) => one - other);
  const most = (halves[Math.floor(halves.length / 2)] ?? 0) * WIDE;
  const shown = lines.flatMap(({ column, truth }) => [...column.value, ...(truth ?? []),
    ...column.value.flatMap((_, i) => (half(column, i) !== null && half(column, i) <= most ? [column.low[i], column.high[i]] : []))])
    .filter((value) => value !== null);
  if (!shown.length) return undefined;
  const [low, high] = shown.reduce(([least, greatest], value) => [Math.min(least, value), Math.max(greatest, value)], [Infinity, -Infinity]);
  const room = 0.06 * (high - low) || 1;
  return [low - room, high + room];
}

/** Time axis: automatic, except for a single tick, which has some ticks around it. */
export function ofTime(lines, tick) {
  const times = lines[0]?.column.time ?? [];
  if (times.length !== 1) return undefined;
  return [-ALONE, ALONE].map((many) => new Date(Date.parse(times[0]) + 1000 * many * tick).toISOString().replace("Z", ""));
}

const half = (column, i) => (column.high[i] === null || column.low[i] === null ? null : (column.high[i] - column.low[i]) / 2);
