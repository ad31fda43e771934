// Texts of the server as sentences.

/** End a text with one full stop. */
export const sentence = (text) => `${text.replace(/[.\s]+$/, "")}.`;
