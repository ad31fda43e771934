// Numbers as text. A value has as many digits as its error allows.

const MINUS = "\u2212";
const ALIKE = 0.05; // maximum difference of the sides of an interval, in half widths, for ±

/** Digits after the point that show two digits of an error. */
const digits = (error) => {
  if (!(error > 0) || !Number.isFinite(error)) return 2;
  return Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error))));
};

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

function fixed(value, places) {
  const text = Math.abs(value).toLocaleString("en-GB", { minimumFractionDigits: places, maximumFractionDigits: places });
  return (value < 0 && Number(text.replaceAll(",", "")) !== 0 ? MINUS : "") + text;
}

export function rounded(value, error = 0) {
  if (!known(value)) return "unknown";
  return fixed(value, Number.isInteger(value) && error >= 10 ? 0 : digits(error));
}

/** A number without an error. */
export const plain = (value) => (Number.isInteger(value) ? rounded(value, 10) : rounded(value, Math.abs(value ?? 0) / 50));

/** A value and its interval: "1,204 ± 31" where its sides are alike, else "37.0 (37.0 to 37.1)". */
export function within(value, low, high) {
  if (!known(value)) return "unknown";
  const half = (high - low) / 2;
  if (!known(low) || !known(high) || half <= 0) return plain(value);
  if (Math.abs(high + low - 2 * value) <= ALIKE * half) {
    const places = meaningful([value, half], half);
    return `${fixed(value, places)} ± ${fixed(half, places)}`;
  }
  const places = meaningful([value, low, high], half);
  return `${fixed(value, places)} (${fixed(low, places)} to ${fixed(high, places)})`;
}

/** Digits that an error allows, at most those of the numbers: numbers on a grid have few. */
function meaningful(numbers, error) {
  let places = digits(error);
  while (places > 0 && numbers.every((number) => hasPlaces(number, places - 1))) places -= 1;
  return places;
}

const hasPlaces = (number, places) => Math.abs(number - Number(number.toFixed(places))) < 1e-9 * Math.max(1, Math.abs(number));

/** Losses come as exact fractions: "1/2" is 0.5. */
export function fraction(text) {
  const [over, under = "1"] = String(text).split("/");
  return Number(over) / Number(under);
}

const SIGNS = { epsilon: "ε", rho: "ρ", delta: "δ" };

/** {"epsilon": "1/2"} is "ε 0.5". An epsilon and a rho are alternatives: what is left of a budget with a delta. */
export function lossText(loss) {
  if (!loss) return "nothing";
  const parts = Object.entries(loss).filter(([name, amount]) => name in SIGNS && fraction(amount) > 0);
  return parts.map(([name, amount]) => `${SIGNS[name]} ${short(fraction(amount))}`).join("rho" in loss && "epsilon" in loss ? " or " : ", ") || "nothing";
}

/** Signs of currencies, by the names of the server. */
export const signed = (text) => text.replace(/\b(epsilon|rho|delta)\b/g, (name) => SIGNS[name]);

/** The amount that a bar shows: epsilon, or rho. */
export const amount = (loss) => fraction(loss?.epsilon ?? loss?.rho ?? 0);

export const currency = (loss) => (loss && "rho" in loss ? "rho" : "epsilon");

export const sign = (name) => SIGNS[name];

export const short = (number) => Number(number.toPrecision(3)).toLocaleString("en-GB", { maximumSignificantDigits: 3 });

export const whole = (number) => number.toLocaleString("en-GB");

export const count = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;

/** 4 is "4th". */
export const ordinal = (number) => {
  const teen = number % 100 > 10 && number % 100 < 14;
  return `${whole(number)}${(!teen && ["th", "st", "nd", "rd"][number % 10]) || "th"}`;
};

export function percent(share) {
  return `${(100 * share).toLocaleString("en-GB", { maximumFractionDigits: share > 0.995 || share < 0.005 ? 1 : 0 })}\u00a0%`;
}
