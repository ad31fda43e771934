// A released number as text: value, error and reliability.

import { within } from "./numbers.js";

export const FEW = "too few to tell";

export const isFew = (column, i) => column.reliable[i] === false;

/** A value of a column with its error. */
export const amountAt = (column, i) => within(column.value[i], column.low[i], column.high[i]);

export const cell = (column, i) => amountAt(column, i) + (isFew(column, i) ? ` (${FEW})` : "");
