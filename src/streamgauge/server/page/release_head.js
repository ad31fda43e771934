// Texts above and below a chart: name, cost, views and downloads.

import { choice, el, show } from "./dom.js";
import { lossText, signed, whole } from "./numbers.js";

export const isOver = (release) => release.end_tick !== null && release.end_tick !== undefined;

export function badges(release) {
  const badge = (text, kind = "") => el("span", { class: `badge ${kind}` }, text);
  return [
    badge(release.window), badge(release.loss_text ? signed(release.loss_text) : lossText(release.loss)),
    release.requested_by && badge(`requested by ${release.requested_by}`), release.discovered && badge("groups discovered"),
    isOver(release) && badge(release.end_tick < release.first_tick ? "ended" : `ended after tick ${whole(release.end_tick)}`, "over"),
  ].filter(Boolean);
}

/** Controls of the view; changed() is called after a choice. */
export function controls(release, view, changed) {
  const set = (part) => (value) => { view[part] = value; changed(); };
  const measures = release.measures.length > 1 && choice("Measure", release.measures.map((name) => [name, name.replaceAll("_", " ")]), view.measure, set("measure"));
  const apartness = choice("Groups", [["together", "Together"], ["apart", "Apart"]], view.layout, set("layout"));
  show(apartness, (release.places ?? 1) > 1 || release.discovered);
  return el("div", { class: "controls" }, measures, apartness);
}

export const links = ({ href, name }) => el("span", { class: "links" },
  el("a", { href: `${href}?format=csv`, download: `${name}.csv`, "aria-label": `${name} as CSV` }, "CSV"),
  el("a", { href, "aria-label": `${name} as JSON` }, "JSON"));
