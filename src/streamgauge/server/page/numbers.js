// Numbers as text. A value is rounded to the digits that its error allows.

const MINUS = "\u2212";
const SYMMETRY_TOLERANCE = 0.05; // maximum difference of the sides of an interval, in half widths, for ±

/** Return the decimal places that show two digits of an error. */
const decimalPlaces = (error) => {
  if (!(error > 0) || !Number.isFinite(error)) return 2;
  return Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error))));
};

const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

function formatFixed(value, places) {
  const text = Math.abs(value).toLocaleString("en-GB", { minimumFractionDigits: places, maximumFractionDigits: places });
  return (value < 0 && Number(text.replaceAll(",", "")) !== 0 ? MINUS : "") + text;
}

export function formatRounded(value, error = 0) {
  if (!isKnown(value)) return "unknown";
  return formatFixed(value, Number.isInteger(value) && error >= 10 ? 0 : decimalPlaces(error));
}

/** Format a number without an error. */
export const formatNumber = (value) => (Number.isInteger(value) ? formatRounded(value, 10) : formatRounded(value, Math.abs(value ?? 0) / 50));

/** Format a value with its interval: "1,204 ± 31" if the interval is symmetric, else "37.0 (37.0 to 37.1)". */
export function formatInterval(value, low, high) {
  if (!isKnown(value)) return "unknown";
  const half = (high - low) / 2;
  if (!isKnown(low) || !isKnown(high) || half <= 0) return formatNumber(value);
  if (Math.abs(high + low - 2 * value) <= SYMMETRY_TOLERANCE * half) {
    const places = neededPlaces([value, half], half);
    return `${formatFixed(value, places)} ± ${formatFixed(half, places)}`;
  }
  const places = neededPlaces([value, low, high], half);
  return `${formatFixed(value, places)} (${formatFixed(low, places)} to ${formatFixed(high, places)})`;
}

/** Return the decimal places that the error allows, but no more than the numbers have: numbers on a grid have few. */
function neededPlaces(numbers, error) {
  let places = decimalPlaces(error);
  while (places > 0 && numbers.every((number) => hasPlaces(number, places - 1))) places -= 1;
  return places;
}

const hasPlaces = (number, places) => Math.abs(number - Number(number.toFixed(places))) < 1e-9 * Math.max(1, Math.abs(number));

/** Parse an exact fraction: "1/2" is 0.5. */
export function parseFraction(text) {
  const [numerator, denominator = "1"] = String(text).split("/");
  return Number(numerator) / Number(denominator);
}

const SIGNS = { epsilon: "ε", rho: "ρ", delta: "δ" };

const LEAST_AMOUNT = 1e-9; // of an epsilon or rho of a release: less is left when shares are rounded

/** Format a loss: {"epsilon": "1/2"} is "ε 0.5". An epsilon and a rho together are alternatives. */
export function lossText(loss) {
  if (!loss) return "nothing";
  const least = { epsilon: LEAST_AMOUNT, rho: LEAST_AMOUNT, delta: Number.MIN_VALUE };
  const parts = Object.entries(loss).filter(([name, amount]) => parseFraction(amount) >= least[name]);
  return parts.map(([name, amount]) => `${SIGNS[name]} ${formatShort(parseFraction(amount))}`).join("rho" in loss && "epsilon" in loss ? " or " : ", ") || "nothing";
}

/** Replace the names of parameters in a text by their symbols. */
export const replaceNames = (text) => text.replace(/\b(epsilon|rho|delta)\b/g, (name) => SIGNS[name]);

/** Return the epsilon or the rho of a loss. */
export const amount = (loss) => parseFraction(loss?.epsilon ?? loss?.rho ?? 0);

export const currency = (loss) => (loss && "rho" in loss ? "rho" : "epsilon");

export const sign = (name) => SIGNS[name];

/** Return the currencies that a release may have under a budget, the most accurate first. */
export const currencies = (budget) => (!budget || "rho" in budget || "delta" in budget ? ["rho", "epsilon", "share"] : ["epsilon", "share"]);

export const formatShort = (number) => Number(number.toPrecision(3)).toLocaleString("en-GB", { maximumSignificantDigits: 3 });

export const formatInteger = (number) => number.toLocaleString("en-GB");

export const formatCount = (number, noun) => `${formatInteger(number)} ${noun}${number === 1 ? "" : "s"}`;

/** 4 is "4th". */
export const formatOrdinal = (number) => {
  const teen = number % 100 > 10 && number % 100 < 14;
  return `${formatInteger(number)}${(!teen && ["th", "st", "nd", "rd"][number % 10]) || "th"}`;
};

export function formatPercent(share) {
  return `${(100 * share).toLocaleString("en-GB", { maximumFractionDigits: share > 0.995 || share < 0.005 ? 1 : 0 })}\u00a0%`;
}
