// Number of earlier devices of this user, each of which has sent a report. It is stored where devices store their
// reports, and no report depends on it.

import { InvalidSaveError, disk } from "./client.js";

const NAME = "favourite emoji: devices before";

const countOf = (text) => {
  if (text !== null && !/^[1-9]\d{0,9}$/.test(text)) throw new InvalidSaveError("memory must be a count, got other text");
  return Number(text ?? 0);
};

export async function earlier() {
  let found;
  await disk.update(NAME, (text) => { found = countOf(text); });
  return found;
}

export const oneMore = () => disk.update(NAME, (text) => String(countOf(text) + 1));
