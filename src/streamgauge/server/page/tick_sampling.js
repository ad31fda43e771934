// Sampling of ticks for charts: every n-th tick is drawn, always the same ones, and the card says so.

export const ROOM = 1500; // ticks that are drawn

/** Step between ticks: a power of two, so that the ticks of one step contain those of the next. */
export const everyNth = (ticks, room = ROOM) => 2 ** Math.max(0, Math.ceil(Math.log2(ticks / room)));

/** A line with the ticks that n divides, and the newest. */
export function sampleTicks(line, n) {
  if (n === 1) return line;
  const { tick } = line.column;
  const kept = tick.map((_, i) => i).filter((i) => tick[i] % n === 0 || i === tick.length - 1);
  const pick = (values) => (values ? kept.map((i) => values[i]) : values);
  const column = Object.fromEntries(Object.entries(line.column).map(([part, values]) => [part, pick(values)]));
  return { ...line, column, truth: pick(line.truth) };
}
