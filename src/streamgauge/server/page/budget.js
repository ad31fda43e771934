// The ledger: the total loss of a protected unit, its releases, and the rest from the next tick on.

import { ask } from "./api.js";
import { byId, el, show } from "./dom.js";
import { amount, currency, lossText, sign, whole } from "./numbers.js";
import { spending } from "./spending.js";

const AHEAD = 1.3; // range beyond the newest tick for charges without an end
const LEAST = 40;
const CHARGED = "Each release is charged before it starts; costs never depend on the data. ";
const WORDS = {
  event: ["What one event can lose, by the tick in which it happened. ", "When a release ends, the ticks after it have their budget back."],
  events: ["What events in any such run of ticks can lose together, by the ticks that they touch. ", "When a release ends, its budget is back once no such run touches its ticks."],
  report: ["What one report can lose, by the tick in which it came: its own columns before it was sent, others to releases. ", "When a release of other columns ends, the ticks after it have their budget back."],
  user: ["What one user can lose in all, whenever they came. ", "Nothing comes back when a release ends, since the same user may come again."],
};

/** Announced intrusions; null without pan-private memory. */
export function lookedAt(intrusions) {
  if (!intrusions) return "";
  const { total, remaining } = intrusions;
  return ` ${total} announced intrusion${total === 1 ? "" : "s"} so far, ${remaining === null ? "any number can follow" : `${remaining} left of those reserved`}.`;
}

const kindOf = (unit = "") => (unit.startsWith("one user") ? "user" : unit.includes("in a row") ? "events" : unit.includes("report") ? "report" : "event");

export class Budget {
  constructor() {
    Object.assign(this, { tick: 0, book: null, stream: null });
  }

  async load() {
    let book = await ask("/api/ledger");
    while (book.next) {
      const more = await ask(book.next);
      book = { ...more, charges: [...book.charges, ...more.charges], requested_by: { ...book.requested_by, ...more.requested_by } };
    }
    this.book = book;
    this.draw();
    return this.book;
  }

  know(stream) {
    this.stream = stream;
    this.draw();
  }

  /** Redraw only if "now" has moved visibly, or a charge has ended. */
  now(tick) {
    const moved = Math.abs(tick - (this.drawn ?? 0)) > this.end() / 200 || JSON.stringify(this.ahead()) !== this.told;
    this.tick = tick;
    if (moved) this.draw();
  }

  /** Return whether an ended release returns budget. */
  backText(release) {
    if (release?.column) return `It cost nothing: what reports of ${release.column} have lost stays lost.`;
    return kindOf(this.stream?.unit) === "user" ? "What it was charged does not come back." : "Its budget is back for later ticks.";
  }

  end() {
    const known = (this.book?.charges ?? []).flatMap((charge) => charge.spans.flatMap((step) => [step.first, step.last ?? 0]));
    const seen = Math.ceil(Math.max(LEAST, AHEAD * this.tick, ...known.map((tick) => tick * 1.05)));
    return Math.min(seen, this.stream?.ticks ?? Infinity);
  }

  /** Spent and remaining budget for the next release; for a batch source it begins at the first tick. */
  ahead() {
    const { book, stream } = this;
    const over = (book?.charges ?? []).map((charge) => charge.end_tick ?? 0);
    const next = stream?.mode === "batch" ? 1 : Math.min(Math.max(this.tick, ...over) + 1, stream?.ticks ?? Infinity);
    const steps = (book?.timeline ?? []).filter((step) => (step.last_tick ?? Infinity) >= next);
    const dearest = steps.reduce((most, step) => (amount(step.spent) > amount(most?.spent) ? step : most), steps[0]);
    return { spent: dearest?.spent ?? book?.spent, remaining: dearest?.remaining ?? book?.remaining };
  }

  draw() {
    const { book } = this;
    if (!book) return;
    this.drawn = this.tick;
    this.told = JSON.stringify(this.ahead());
    const body = byId("budget-body");
    if (!book.budget) {
      body.replaceChildren(el("p", { class: "empty" }, "Nothing was charged yet."));
      return;
    }
    this.#gauges();
    body.replaceChildren(this.#summary(), ...this.#local(), this.#chart(), this.#lanes());
  }

  #gauges() {
    const { budget } = this.book;
    const { spent, remaining } = this.ahead();
    const share = Math.min(100, (100 * amount(spent)) / amount(budget));
    const pairs = [["Budget", budget], ["Spent", spent], ["Left", remaining]];
    byId("gauges").replaceChildren(
      el("div", { class: "meter", role: "img", "aria-label": `${Math.round(share)} % of the budget is spent, for ticks to come` }, el("span", { style: `width:${share}%` })),
      ...pairs.map(([name, loss]) => el("div", {}, el("dt", {}, name), el("dd", {}, lossText(loss)))));
    show(byId("gauges"), true);
  }

  #summary() {
    const { budget } = this.book;
    const [what, back] = WORDS[kindOf(this.stream?.unit)];
    const kept = currency(this.ahead().remaining) === currency(budget) ? "" : " What is left is an ε for a release with pure noise, or a ρ for one with Gaussian noise.";
    return el("p", { class: "hint" }, what + CHARGED + back + kept + lookedAt(this.book.intrusions));
  }

  /** Loss of devices before the server gets a report, a line for each report column. */
  #local() {
    return (this.book.columns ?? []).map((each) => el("p", { class: "hint local" },
      el("b", {}, each.column), ` is private before it is sent (${each.protocol}): ${lossText(each.loss)} a report, ${lossText(each.per_user)} a user `
      + `of ${whole(each.reports_per_user)} report${each.reports_per_user === 1 ? "" : "s"} at most${each.on_repeat === "repeat" ? ", always the same" : ""}.`));
  }

  /** Spent budget as steps; the server's sum, since losses do not always add up. */
  steps() {
    const end = this.end();
    return (this.book.timeline ?? []).map((step) => ({ from: step.first_tick, to: Math.min(step.last_tick ?? end, end), spent: amount(step.spent) }))
      .filter((step) => step.from <= end);
  }

  #chart() {
    const { budget } = this.book;
    const unit = currency(budget);
    return spending({ steps: this.steps(), end: this.end(), tick: this.tick, of: amount(budget), sign: sign(unit), unit });
  }

  #lanes() {
    const end = this.end();
    return el("ul", { class: "lanes" }, this.book.charges.map((charge, i) => el("li", {},
      el("div", { class: "row" }, el("b", {}, charge.release),
        el("span", {}, [...new Set(charge.spans.map((step) => lossText(step.loss)))].join(" then ") || "given back"),
        el("span", { class: "hint" }, spanText(charge, this.book.requested_by?.[charge.release]))),
      el("div", { class: "lane", "aria-hidden": "true" }, charge.spans.map((step) => bar(step, end, i))))));
  }
}

function bar(step, end, i) {
  const left = (100 * (step.first - 1)) / end;
  const right = step.last === null ? 100 : (100 * Math.min(end, step.last)) / end;
  return el("span", { class: `span g${(i % 8) + 1}${step.last === null ? " open" : ""}`, style: `left:${left}%;width:${Math.max(0.8, right - left)}%` });
}

function spanText(charge, by) {
  const first = charge.spans[0]?.first;
  const last = charge.spans.at(-1)?.last;
  const who = by ? `requested by ${by}, ` : "";
  if (first === undefined) return `${who}ended before its first tick: all of it is back`;
  if (charge.end_tick === null || charge.end_tick === undefined) return `${who}tick ${whole(first)} ${last ? `to ${whole(last)}` : "on"}`;
  const back = last !== null && last <= charge.end_tick ? `: free again from tick ${whole(last + 1)}` : ", and gives nothing back";
  return `${who}ended after tick ${whole(charge.end_tick)}${back}`;
}
