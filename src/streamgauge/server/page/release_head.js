// Badges, controls and download links of a release.

import { choice, el, show } from "./dom.js";
import { lossText, replaceNames, formatInteger } from "./numbers.js";

export const isEnded = (release) => release.end_tick !== null && release.end_tick !== undefined;

export function buildBadges(release) {
  const badge = (text, kind = "") => el("span", { class: `badge ${kind}` }, text);
  return [
    badge(release.window), badge(release.loss_text ? replaceNames(release.loss_text) : lossText(release.loss)),
    release.requested_by && badge(`requested by ${release.requested_by}`), release.discovered && badge("discovered groups"),
    release.ranking && badge(`the ${formatInteger(release.ranking.places)} largest by ${release.ranking.measure.replaceAll("_", " ")}`),
    release.consistent?.length && el("span", { class: "badge", title: release.consistent.join("; ") }, "adjusted after noise"),
    isEnded(release) && badge(release.end_tick < release.first_tick ? "ended" : `ended after tick ${formatInteger(release.end_tick)}`, "over"),
  ].filter(Boolean);
}

/** Return the controls of the view. They call onChange() after a choice. */
export function buildControls(release, view, mayDrawBars, onChange) {
  const set = (part) => (value) => { view[part] = value; onChange(); };
  const measures = release.measures.length > 1 && choice("Measure", release.measures.map((name) => [name, name.replaceAll("_", " ")]), view.measure, set("measure"));
  const layouts = [...(mayDrawBars ? [["bars", "Bars"]] : []), ["together", "Together"], ["apart", "Separate"]];
  const layoutChoice = choice("Groups", layouts, view.layout, set("layout"));
  show(layoutChoice, (release.places ?? 1) > 1 || release.discovered);
  return el("div", { class: "controls" }, measures, layoutChoice);
}

export const buildLinks = ({ href, name }) => el("span", { class: "links" },
  el("a", { href: `${href}?format=csv`, download: `${name}.csv`, "aria-label": `${name} as CSV` }, "CSV"),
  el("a", { href, "aria-label": `${name} as JSON` }, "JSON"));
