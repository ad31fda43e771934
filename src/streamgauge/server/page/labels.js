// Labels of the stream on their way into a chart, which reads some markup: none of it is theirs to write.

const WIDTH = 6.4; // pixels of a letter, about

export const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** So much of a label as fits. */
export function cut(text, pixels) {
  const letters = Math.max(4, Math.floor(pixels / WIDTH));
  return text.length > letters ? `${text.slice(0, letters - 1).trimEnd()}…` : text;
}
