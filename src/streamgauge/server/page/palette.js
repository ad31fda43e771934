// Colours that are distinguishable with any colour vision, from the style sheet, for both themes.

const GROUPS = 8;

const value = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function palette() {
  return {
    ink: value("--ink"), faint: value("--faint"), rule: value("--rule"), paper: value("--card"),
    groups: Array.from({ length: GROUPS }, (_, i) => value(`--group-${i + 1}`)),
  };
}

export const ofGroup = (colours, i) => colours.groups[i % GROUPS];

/** Lines beyond the eighth repeat the colours, dotted; dashed lines are the truth. */
export const dashOf = (i) => ["solid", "dot", "dashdot"][Math.floor(i / GROUPS) % 3];

export const faded = (colour, share) => {
  const [red, green, blue] = colour.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
  return `rgba(${red},${green},${blue},${share})`;
};
