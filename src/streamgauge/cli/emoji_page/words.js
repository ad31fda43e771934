// Words of others as a sentence of ours.

/** Ends with one stop, whoever wrote it. */
export const sentence = (text) => `${text.replace(/[.\s]+$/, "")}.`;
