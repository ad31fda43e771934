// Colours that are distinguishable with any colour vision, from the style sheet, for both themes.

const COLOUR_COUNT = 8;

const readProperty = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function palette() {
  return {
    ink: readProperty("--ink"), faint: readProperty("--faint"), rule: readProperty("--rule"), paper: readProperty("--card"),
    groups: Array.from({ length: COLOUR_COUNT }, (_, i) => readProperty(`--group-${i + 1}`)),
  };
}

export const groupColour = (colours, i) => colours.groups[i % COLOUR_COUNT];

/** Lines after the eighth repeat the colours with dots. Dashed lines show the truth. */
export const lineDash = (i) => ["solid", "dot", "dashdot"][Math.floor(i / COLOUR_COUNT) % 3];

export const withOpacity = (colour, opacity) => {
  const [red, green, blue] = colour.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  return `rgba(${red},${green},${blue},${opacity})`;
};
