// A released number as text: value, error and reliability.

import { formatInterval } from "./numbers.js";

export const UNRELIABLE = "noisy count too small";

export const isUnreliable = (column, i) => column.reliable[i] === false;

/** A value of a column with its error. */
export const formatAmount = (column, i) => formatInterval(column.value[i], column.low[i], column.high[i]);

export const formatCell = (column, i) => formatAmount(column, i) + (isUnreliable(column, i) ? ` (${UNRELIABLE})` : "");
