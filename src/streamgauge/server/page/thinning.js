// More ticks than a chart has room for: every n-th is drawn, always the same ones, and the card says so.

export const ROOM = 1500; // ticks that are drawn

/** A power of two: so ticks that were read by one are also those of the next. */
export const everyNth = (ticks, room = ROOM) => 2 ** Math.max(0, Math.ceil(Math.log2(ticks / room)));

/** A line with the ticks that n divides, and the newest. */
export function thinned(line, n) {
  if (n === 1) return line;
  const { tick } = line.column;
  const kept = tick.map((_, i) => i).filter((i) => tick[i] % n === 0 || i === tick.length - 1);
  const pick = (values) => (values ? kept.map((i) => values[i]) : values);
  const column = Object.fromEntries(Object.entries(line.column).map(([part, values]) => [part, pick(values)]));
  return { ...line, column, truth: pick(line.truth) };
}
