// The budget panel: the total loss of a protected unit, the charge of each release, and the remaining budget.

import { request } from "./api.js";
import { byId, el, show } from "./dom.js";
import { amount, currency, lossText, sign, formatInteger } from "./numbers.js";
import { buildSpendingChart } from "./spending.js";

const RANGE_FACTOR = 1.3; // range beyond the newest tick for charges without an end
const MIN_RANGE_TICKS = 40;
const CHARGE_TEXT = "Each release is charged before it starts. Charges never depend on the data. ";
const UNIT_TEXTS = {
  event: ["The largest loss of one event, by the tick in which it happened. ", "When a release ends, its budget is available again for later ticks."],
  events: ["The largest total loss of the events in any such range of ticks, by the ticks that it includes. ", "When a release ends, its budget is available again for ranges without its ticks."],
  renewing: ["The largest total loss of one user in any such range of ticks, by the ticks that it includes. ", "When a release ends, its budget is available again for ranges without its ticks."],
  tick: ["The largest loss of all events of one tick, by the tick. ", "When a release ends, its budget is available again for later ticks."],
  report: ["The largest loss of one report, by the tick in which it arrived. Devices spend the loss of report columns; releases spend that of other columns. ", "When a release of other columns ends, its budget is available again for later ticks."],
  user: ["The largest total loss of one user, in all ticks together. ", "The end of a release returns no budget, because the same user may appear again."],
};

/** Text about announced intrusions; the argument is null without pan-private memory. */
export function intrusionText(intrusions) {
  if (!intrusions) return "";
  const { total, remaining } = intrusions;
  return ` ${total} announced intrusion${total === 1 ? "" : "s"} so far, ${remaining === null ? "without a limit" : `${remaining} of the reserved ones left`}.`;
}

const unitKind = (unit = "") => (unit.startsWith("one user, in any") ? "renewing" : unit.startsWith("one user") ? "user" : unit.startsWith("all events of one tick") ? "tick" : unit.includes("in a row") ? "events" : unit.includes("report") ? "report" : "event");

export class Budget {
  constructor() {
    Object.assign(this, { tick: 0, ledger: null, stream: null });
  }

  async load() {
    let ledger = await request("/api/ledger");
    while (ledger.next) {
      const more = await request(ledger.next);
      ledger = { ...more, charges: [...ledger.charges, ...more.charges], requested_by: { ...ledger.requested_by, ...more.requested_by } };
    }
    this.ledger = ledger;
    this.draw();
    return this.ledger;
  }

  setStream(stream) {
    this.stream = stream;
    this.draw();
  }

  /** Set the newest tick. Redraw only if its mark moves visibly, or a charge has ended. */
  setTick(tick) {
    const moved = Math.abs(tick - (this.drawnTick ?? 0)) > this.lastTick() / 200 || JSON.stringify(this.remaining()) !== this.drawnRest;
    this.tick = tick;
    if (moved) this.draw();
  }

  /** Say whether the end of a release returns budget. */
  refundText(release) {
    if (release?.column) return `It cost nothing. The loss of reports of ${release.column} is not returned.`;
    return unitKind(this.stream?.unit) === "user" ? "Its budget is not returned." : "Its budget is available again for later ticks.";
  }

  lastTick() {
    const known = (this.ledger?.charges ?? []).flatMap((charge) => charge.spans.flatMap((step) => [step.first, step.last ?? 0]));
    const range = Math.ceil(Math.max(MIN_RANGE_TICKS, RANGE_FACTOR * this.tick, ...known.map((tick) => tick * 1.05)));
    return Math.min(range, this.stream?.ticks ?? Infinity);
  }

  /** Spent and remaining budget of the next release. With a batch source that release starts at tick 1. */
  remaining() {
    const { ledger, stream } = this;
    const endTicks = (ledger?.charges ?? []).map((charge) => charge.end_tick ?? 0);
    const next = stream?.mode === "batch" ? 1 : Math.min(Math.max(this.tick, ...endTicks) + 1, stream?.ticks ?? Infinity);
    const steps = (ledger?.timeline ?? []).filter((step) => (step.last_tick ?? Infinity) >= next);
    const worst = steps.reduce((most, step) => (amount(step.spent) > amount(most?.spent) ? step : most), steps[0]);
    return { spent: worst?.spent ?? ledger?.spent, remaining: worst?.remaining ?? ledger?.remaining };
  }

  draw() {
    const { ledger } = this;
    if (!ledger) return;
    this.drawnTick = this.tick;
    this.drawnRest = JSON.stringify(this.remaining());
    const body = byId("budget-body");
    if (!ledger.budget) {
      body.replaceChildren(el("p", { class: "empty" }, "No release was charged yet."));
      return;
    }
    this.#gauges();
    body.replaceChildren(this.#summary(), ...this.#local(), this.#chart(), this.#lanes());
  }

  #gauges() {
    const { budget } = this.ledger;
    const { spent, remaining } = this.remaining();
    const share = Math.min(100, (100 * amount(spent)) / amount(budget));
    const pairs = [["Budget", budget], ["Spent", spent], ["Left", remaining]];
    byId("gauges").replaceChildren(
      el("div", { class: "meter", role: "img", "aria-label": `${Math.round(share)} % of the budget of the next ticks is spent` }, el("span", { style: `width:${share}%` })),
      ...pairs.map(([name, loss]) => el("div", {}, el("dt", {}, name), el("dd", {}, lossText(loss)))));
    show(byId("gauges"), true);
  }

  #summary() {
    const { budget } = this.ledger;
    const [unitText, refund] = UNIT_TEXTS[unitKind(this.stream?.unit)];
    const choice = currency(this.remaining().remaining) === currency(budget) ? "" : " The rest pays for a release with pure noise (ε) or one with Gaussian noise (ρ).";
    return el("p", { class: "hint" }, unitText + CHARGE_TEXT + refund + choice + intrusionText(this.ledger.intrusions));
  }

  /** Loss that devices spend before they send a report: one line for each report column. */
  #local() {
    return (this.ledger.columns ?? []).map((each) => el("p", { class: "hint local" },
      el("b", {}, each.column), ` is privatised on the device (${each.protocol}): ${lossText(each.loss)} per report, ${lossText(each.per_user)} per user, `
      + `at most ${formatInteger(each.reports_per_user)} report${each.reports_per_user === 1 ? "" : "s"} per user${each.on_repeat === "repeat" ? ", always the same one" : ""}.`));
  }

  /** Spent budget as steps. The server computes the sums, because losses do not always add. */
  steps() {
    const end = this.lastTick();
    return (this.ledger.timeline ?? []).map((step) => ({ from: step.first_tick, to: Math.min(step.last_tick ?? end, end), spent: amount(step.spent) }))
      .filter((step) => step.from <= end);
  }

  #chart() {
    const { budget } = this.ledger;
    const unit = currency(budget);
    return buildSpendingChart({ steps: this.steps(), end: this.lastTick(), tick: this.tick, of: amount(budget), sign: sign(unit), unit });
  }

  #lanes() {
    const end = this.lastTick();
    return el("ul", { class: "lanes" }, this.ledger.charges.map((charge, i) => el("li", {},
      el("div", { class: "row" }, el("b", {}, charge.release),
        el("span", {}, [...new Set(charge.spans.map((step) => lossText(step.loss)))].join(" then ") || "returned"),
        el("span", { class: "hint" }, chargeText(charge, this.ledger.requested_by?.[charge.release]))),
      el("div", { class: "lane", "aria-hidden": "true" }, charge.spans.map((step) => buildBar(step, end, i))))));
  }
}

function buildBar(step, end, i) {
  const left = (100 * (step.first - 1)) / end;
  const right = step.last === null ? 100 : (100 * Math.min(end, step.last)) / end;
  return el("span", { class: `span g${(i % 8) + 1}${step.last === null ? " open" : ""}`, style: `left:${left}%;width:${Math.max(0.8, right - left)}%` });
}

function chargeText(charge, by) {
  const first = charge.spans[0]?.first;
  const last = charge.spans.at(-1)?.last;
  const requester = by ? `requested by ${by}, ` : "";
  if (first === undefined) return `${requester}ended before its first tick: fully returned`;
  if (charge.end_tick === null || charge.end_tick === undefined) return `${requester}tick ${formatInteger(first)} ${last ? `to ${formatInteger(last)}` : "on"}`;
  const refund = last !== null && last <= charge.end_tick ? `, available again from tick ${formatInteger(last + 1)}` : ", not returned";
  return `${requester}ended after tick ${formatInteger(charge.end_tick)}${refund}`;
}
