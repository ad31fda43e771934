// Numbers as people read them. A value has the digits that its error leaves it.

const MINUS = "\u2212";

/** Digits after the point that show two digits of an error. */
const digits = (error) => {
  if (!(error > 0) || !Number.isFinite(error)) return 2;
  return Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error))));
};

export function rounded(value, error = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "unknown";
  const places = Number.isInteger(value) && error >= 10 ? 0 : digits(error);
  const text = Math.abs(value).toLocaleString("en-GB", { minimumFractionDigits: places, maximumFractionDigits: places });
  return (value < 0 && Number(text.replaceAll(",", "")) !== 0 ? MINUS : "") + text;
}

/** A number that has no error. */
export const plain = (value) => (Number.isInteger(value) ? rounded(value, 10) : rounded(value, Math.abs(value ?? 0) / 50));

/** "1,204 ± 31", or the value alone where its error is not known. */
export function plusMinus(value, half) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "unknown";
  return Number.isFinite(half) && half !== null ? `${rounded(value, half)} ± ${rounded(half, half)}` : plain(value);
}

/** Losses come as exact fractions: "1/2" is 0.5. */
export function fraction(text) {
  const [over, under = "1"] = String(text).split("/");
  return Number(over) / Number(under);
}

const SIGNS = { epsilon: "ε", rho: "ρ", delta: "δ" };

/** {"epsilon": "1/2"} is "ε 0.5". */
export function lossText(loss) {
  if (!loss) return "nothing";
  const parts = Object.entries(loss).filter(([name, amount]) => name in SIGNS && fraction(amount) > 0);
  return parts.map(([name, amount]) => `${SIGNS[name]} ${short(fraction(amount))}`).join(", ") || "nothing";
}

/** The amount that a bar shows: epsilon, or rho. */
export const amount = (loss) => fraction(loss?.epsilon ?? loss?.rho ?? 0);

export const currency = (loss) => (loss && "rho" in loss ? "rho" : "epsilon");

export const sign = (name) => SIGNS[name];

export const short = (number) => Number(number.toPrecision(3)).toLocaleString("en-GB", { maximumSignificantDigits: 3 });

export const count = (number, noun) => `${number.toLocaleString("en-GB")} ${noun}${number === 1 ? "" : "s"}`;

const UNITS = [[604800, "week"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

/** 90 is "90 seconds", 120 is "2 minutes". */
export function duration(seconds) {
  const [size, name] = UNITS.find(([size]) => seconds >= size && Number.isInteger(seconds / size)) ?? [1, "second"];
  return count(Number((seconds / size).toPrecision(4)), name);
}

export function percent(share) {
  return `${(100 * share).toLocaleString("en-GB", { maximumFractionDigits: share > 0.995 || share < 0.005 ? 1 : 0 })} %`;
}
