// One released number in words: its value, its error, and whether there was enough to tell.

import { rounded, within } from "./numbers.js";

export const FEW = "too few to tell";

export const isFew = (column, i) => column.enough[i] === false;

/** A value of a column with its error; of a difference the bound on it is told elsewhere. */
export const amountAt = (column, i) => (column.most
  ? rounded(column.value[i], column.most[i] ?? 0)
  : within(column.value[i], column.low[i], column.high[i]));

export const cell = (column, i) => amountAt(column, i) + (isFew(column, i) ? ` (${FEW})` : "");

/** The same, with the bound. */
export const pointed = (column, i) => cell(column, i) + (column.most ? bound(column.most[i]) : "");

const bound = (most) => (most === null ? "" : ` (standard error at most ${rounded(most, most)})`);
