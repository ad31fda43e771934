// Labels for charts. Charts interpret some markup, so labels are escaped.

const WIDTH = 6.4; // pixels of a letter, about

export const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Shorten a label to a width. */
export function cut(text, pixels) {
  const letters = Math.max(4, Math.floor(pixels / WIDTH));
  return text.length > letters ? `${text.slice(0, letters - 1).trimEnd()}…` : text;
}
