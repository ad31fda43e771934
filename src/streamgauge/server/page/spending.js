// The ledger as a timeline: the total loss at each tick, below the budget.

import { el, svg } from "./dom.js";
import { formatShort, formatInteger } from "./numbers.js";

const HEADROOM = 1.2; // height of the chart in budgets; the label of the budget is above its line

/** Return the chart of {steps: [{from, to, spent}], end, tick, of, sign, unit}: `of` is the budget, `tick` is now. */
export function buildSpendingChart(view) {
  const { end, tick, of, steps } = view;
  const x = (at) => (100 * (at - 1)) / end;
  const y = (spent) => 100 - (100 * spent) / (HEADROOM * of);
  const line = steps.map((step) => `H${x(step.from)}V${y(step.spent)}H${x(step.to + 1)}`).join("");
  const picture = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "spent", d: `M0 100${line}V100Z` }),
    svg("path", { class: "edge", d: `M0 ${y(steps[0]?.from === 1 ? steps[0].spent : 0)}${line}` }),
    svg("path", { class: "limit", d: `M0 ${y(of)}H100` }),
    svg("path", { class: "now", d: `M${x(tick + 1)} 0V100` }));
  return el("figure", { class: "spending" },
    el("div", { class: "frame", role: "img", "aria-label": describe(view) }, picture,
      el("span", { class: "mark limit", style: `top:${y(of)}%` }, `budget ${view.sign} ${formatShort(of)}`), buildPeakLabel(view, x, y),
      el("span", { class: `mark now${x(tick + 1) > 90 ? " last" : ""}`, style: `left:${x(tick + 1)}%` }, "now")),
    el("figcaption", { class: "axis" }, el("span", {}, "tick 1"), el("span", {}, `tick ${formatInteger(end)}`)));
}

/** Return the label of the largest loss. */
function buildPeakLabel({ steps, of, sign }, x, y) {
  const most = steps.reduce((found, step) => (step.spent > (found?.spent ?? 0) ? step : found), null);
  if (!most || most.spent > 0.9 * of) return null;
  const right = x(most.from) > 60;
  const at = right ? `right:${100 - x(most.to + 1)}%` : `left:${x(most.from)}%`;
  return el("span", { class: "mark edge", style: `top:${y(most.spent)}%;${at}` }, `spent ${sign} ${formatShort(most.spent)}`);
}

function describe({ steps, of, unit }) {
  const spent = steps.map((step) => `ticks ${step.from} to ${step.to}: ${formatShort(step.spent)}`).join("; ");
  return `Spent loss, with a budget of ${unit} ${formatShort(of)}. ${spent || "None yet"}.`;
}
