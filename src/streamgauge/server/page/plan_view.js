// A plan: its cost, the remaining budget, and the predicted errors.

import { el } from "./dom.js";
import { formatRounded, formatShort, lossText, parseFraction } from "./numbers.js";

const LONG_TEXT_LETTERS = 60; // longer texts have a separate line

/** Show the reasons of the server, without the name of the pipeline file. */
export function buildRefusal(reasons, file = "") {
  return el("div", { class: "refusal", role: "alert" }, el("b", {}, "Refused. "), "Nothing was charged.",
    el("ul", {}, reasons.map((reason) => el("li", {}, file && reason.startsWith(`${file}: `) ? reason.slice(file.length + 2) : reason))));
}

/** Return a plan, or its refusal, with what other losses buy. useLoss(loss): a loss was chosen. */
export function buildPlan({ release, refusals: reasons = [], remaining_budget: left, remaining_share: share, affordable = [] }, file, useLoss = null) {
  if (reasons.length) return el("div", {}, buildRefusal(reasons, file), buildPrices([], affordable, useLoss));
  const facts = release && [
    ["Costs", release.column ? `nothing more: devices spend the loss of ${release.column}` : lossText(release.loss) + (release.delta ? ` and δ ${formatShort(parseFraction(release.delta))}` : "")],
    ["Your remaining share after it", share && lossText(share)],
    ["Remaining budget after it", left && lossText(left)],
    ["Groups", String(release.groups)],
    ["Counts", release.contributions],
    ["Ranking", release.ranking?.text.join("; ")],
    ["Starts", `tick ${release.first_tick.toLocaleString("en-GB")}${release.last_tick ? `, ends tick ${release.last_tick.toLocaleString("en-GB")}` : ", no end"}`],
    ["Rows", release.periods && `${release.periods.partial ? "the figure of a period so far at each tick" : "one for each period"}, the first at tick ${release.periods.first_row_tick.toLocaleString("en-GB")}${release.periods.is_first_cut ? ", of a period that began before" : ""}`],
    ["Mechanism", [...new Set(release.parts.map((part) => part.mechanism))].join(", ")],
    ["Adjusted after noise", release.consistent.join("; ")],
    ["Alerts", release.alerts.join("; ")],
    ["Reason", joinUnique(release.parts, "reason")],
    ["Its error depends on", joinUnique(release.parts, "error_depends_on")],
    ["Note", joinUnique(release.parts.flatMap((part) => part.hints.map((hint) => ({ hint }))), "hint")],
  ].filter(([, text]) => text);
  return el("div", {},
    facts && el("dl", { class: "facts" }, facts.map(([name, text]) => el("div", { class: text.length > LONG_TEXT_LETTERS ? "long" : null }, el("dt", {}, name), el("dd", {}, text)))),
    release && buildErrorTable(release.errors),
    release && buildPrices(release.alternatives ?? [], affordable, useLoss));
}

/** Return a table of what other losses buy: for the same price, and all that is left. */
function buildPrices(same, left, useLoss) {
  const rows = [...same.map((price) => [price, "for no more"]), ...left.map((price) => [price, "all that is left"])];
  if (!rows.length) return null;
  const head = ["Loss", "± 95 %", "", ""];
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Other prices" },
    el("table", { class: "prices" }, el("caption", {}, "What other losses buy"),
      el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, rows.map(([price, words]) => el("tr", {},
        el("th", { scope: "row" }, lossText(price.loss)), el("td", {}, errorText(price.errors)), el("td", { class: "hint" }, words),
        el("td", {}, useLoss && el("button", { type: "button", class: "quiet", "aria-label": `Use ${lossText(price.loss)}`, click: () => useLoss(price.loss) }, "Use")))))));
}

/** Return the error of each measure at the last shown tick. */
function errorText(errors) {
  const last = Math.max(...errors.map((error) => error.tick));
  const shown = errors.filter((error) => error.tick === last);
  return shown.map((error) => (shown.length > 1 ? `${error.measure} ` : "") + `± ${formatError(error.half_width)}`).join(", ");
}

/** Join the distinct texts of the parts. */
const joinUnique = (parts, field) => [...new Set(parts.map((part) => part[field]).filter((text) => text))].join("; ");

function buildErrorTable(found) {
  const head = ["Measure", "At tick", "Standard error", "± 95 %", ""];
  const rows = found.map((error) => el("tr", {},
    el("th", { scope: "row" }, error.measure), el("td", { class: "n" }, error.tick.toLocaleString("en-GB")),
    el("td", { class: "n" }, formatError(error.stddev)), el("td", { class: "n" }, formatError(error.half_width)), el("td", { class: "hint" }, error.note)));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Predicted errors" },
    el("table", {}, el("caption", {}, "Predicted errors for one group"),
      el("thead", {}, el("tr", {}, head.map((text, i) => el("th", { scope: "col", class: i && i < 4 ? "n" : null }, text)))), el("tbody", {}, rows)));
}

const formatError = (value) => (value === null ? "unknown" : formatRounded(value, value));
