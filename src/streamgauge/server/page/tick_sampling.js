// Sampling of ticks for charts. A long chart draws every n-th tick, always the same ones, and the card says so.

export const MAX_TICKS = 1500; // ticks that a chart draws

/** Return the step between ticks. It is a power of two, so that each step includes the ticks of the next one. */
export const everyNth = (ticks, maxTicks = MAX_TICKS) => 2 ** Math.max(0, Math.ceil(Math.log2(ticks / maxTicks)));

/** Return the line with only the ticks that n divides, and the newest tick. */
export function sampleTicks(line, n) {
  if (n === 1) return line;
  const { tick } = line.column;
  const indices = tick.map((_, i) => i).filter((i) => tick[i] % n === 0 || i === tick.length - 1);
  const pick = (values) => (values ? indices.map((i) => values[i]) : values);
  const column = Object.fromEntries(Object.entries(line.column).map(([part, values]) => [part, pick(values)]));
  return { ...line, column, truth: pick(line.truth) };
}
