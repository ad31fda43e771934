// Messages of the server as sentences.

/** End a text with one full stop. */
export const toSentence = (text) => `${text.replace(/[.\s]+$/, "")}.`;
