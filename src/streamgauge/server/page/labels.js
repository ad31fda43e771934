// Labels for charts. Charts interpret some markup, so labels are escaped.

export const LETTER_PIXELS = 6.4; // approximate width of a letter

export const escapeMarkup = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Shorten a label to a width. */
export function truncate(text, pixels) {
  const letters = Math.max(4, Math.floor(pixels / LETTER_PIXELS));
  return text.length > letters ? `${text.slice(0, letters - 1).trimEnd()}…` : text;
}
