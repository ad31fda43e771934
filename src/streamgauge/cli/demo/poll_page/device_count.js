// Number of earlier devices of this user. Each has sent a report. The number is stored with the reports of devices, and no
// report depends on it.

import { InvalidSaveError, disk } from "./client.js";

const MEMORY_NAME = "favourite emoji: devices before";

const parseCount = (text) => {
  if (text !== null && !/^[1-9]\d{0,9}$/.test(text)) throw new InvalidSaveError("memory must be a count, got other text");
  return Number(text ?? 0);
};

export async function loadCount() {
  let found;
  await disk.update(MEMORY_NAME, (text) => { found = parseCount(text); });
  return found;
}

export const increaseCount = () => disk.update(MEMORY_NAME, (text) => String(parseCount(text) + 1));
