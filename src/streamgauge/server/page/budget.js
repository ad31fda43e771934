// The ledger as a timeline: what one event of each tick loses in all, below the budget, and which release takes
// it. Where a release has ended, later ticks have their budget back.

import { ask } from "./api.js";
import { byId, el, show, svg } from "./dom.js";
import { amount, currency, lossText, short, sign } from "./numbers.js";

const AHEAD = 1.3; // how far beyond the newest tick is shown of what has no end
const LEAST = 40;

export class Budget {
  constructor() {
    this.tick = 0;
    this.book = null;
  }

  async load() {
    this.book = await ask("/api/ledger");
    this.draw();
    return this.book;
  }

  /** Only where "now" has moved by something that can be seen. */
  now(tick) {
    const moved = Math.abs(tick - (this.drawn ?? 0)) > this.end() / 200;
    this.tick = tick;
    if (moved) this.draw();
  }

  end() {
    const known = (this.book?.charges ?? []).flatMap((charge) => charge.covers.flatMap((step) => [step.first, step.last ?? 0]));
    return Math.ceil(Math.max(LEAST, AHEAD * this.tick, ...known.map((tick) => tick * 1.05)));
  }

  draw() {
    const { book } = this;
    if (!book) return;
    this.drawn = this.tick;
    const body = byId("budget-body");
    if (!book.budget) {
      body.replaceChildren(el("p", { class: "empty" }, "Nothing was charged yet."));
      return;
    }
    this.#gauges();
    body.replaceChildren(this.#summary(), this.#chart(), this.#lanes());
  }

  #gauges() {
    const of = amount(this.book.budget);
    const pairs = [["Budget", lossText(this.book.budget)], ["Spent", lossText(this.book.spent)], ["Left", lossText(this.book.left)]];
    byId("gauges").replaceChildren(
      el("div", { class: "meter", role: "img", "aria-label": `${Math.round((100 * amount(this.book.spent)) / of)} % of the budget is spent` },
        el("span", { style: `width:${Math.min(100, (100 * amount(this.book.spent)) / of)}%` })),
      ...pairs.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
    show(byId("gauges"), true);
  }

  #summary() {
    return el("p", { class: "hint" }, "What one event can lose, by the tick in which it happened. Each release is charged before it starts; "
      + "costs never depend on the data. When a release ends, the ticks after it have their budget back.");
  }

  /** What is spent, as steps; the server's own sum, since losses do not always just add up. */
  steps() {
    const told = this.book.timeline ?? [];
    return told.map((step) => ({ from: step.from, to: Math.min(step.to ?? this.end(), this.end()), spent: spentOf(step.spent) }))
      .filter((step) => step.from <= this.end());
  }

  #chart() {
    const end = this.end();
    const of = amount(this.book.budget);
    const top = 1.12 * of;
    const x = (tick) => (100 * (tick - 1)) / end;
    const y = (spent) => 100 - (100 * spent) / top;
    const steps = this.steps();
    const line = steps.map((step) => `H${x(step.from)}V${y(step.spent)}H${x(step.to + 1)}`).join("");
    const picture = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("path", { class: "spent", d: `M0 100${line}V100Z` }),
      svg("path", { class: "edge", d: `M0 ${y(steps[0]?.from === 1 ? steps[0].spent : 0)}${line}` }),
      svg("path", { class: "limit", d: `M0 ${y(of)}H100` }),
      svg("path", { class: "now", d: `M${x(this.tick + 1)} 0V100` }));
    const unit = sign(currency(this.book.budget));
    const most = Math.max(0, ...steps.map((step) => step.spent));
    return el("figure", { class: "spending" },
      el("div", { class: "frame", role: "img", "aria-label": this.#told(steps, of) }, picture,
        el("span", { class: "mark limit", style: `top:${y(of)}%` }, `budget ${unit} ${short(of)}`),
        most > 0 && most < 0.93 * of && el("span", { class: "mark edge", style: `top:${y(most)}%` }, `spent ${unit} ${short(most)}`),
        el("span", { class: "mark now", style: `left:${x(this.tick + 1)}%` }, "now")),
      el("figcaption", { class: "axis" }, el("span", {}, "tick 1"), el("span", {}, `tick ${end.toLocaleString("en-GB")}`)));
  }

  #told(steps, of) {
    const unit = currency(this.book.budget);
    const told = steps.map((step) => `ticks ${step.from} to ${step.to}: ${short(step.spent)}`).join("; ");
    return `What one event loses, of a budget of ${unit} ${short(of)}. ${told || "Nothing yet"}.`;
  }

  #lanes() {
    const end = this.end();
    return el("ul", { class: "lanes" }, this.book.charges.map((charge, i) => el("li", {},
      el("div", { class: "row" }, el("b", {}, charge.release),
        el("span", {}, [...new Set(charge.covers.map((step) => lossText(step.loss)))].join(" then ") || "given back"),
        el("span", { class: "hint" }, spanText(charge, this.book.asked?.[charge.release]))),
      el("div", { class: "lane", "aria-hidden": "true" }, charge.covers.map((step) => bar(step, end, i))))));
  }
}

const spentOf = (spent) => (typeof spent === "object" && spent !== null ? amount(spent) : amount({ epsilon: spent ?? 0 }));

function bar(step, end, i) {
  const left = (100 * (step.first - 1)) / end;
  const right = step.last === null ? 100 : (100 * Math.min(end, step.last)) / end;
  return el("span", { class: `span g${(i % 8) + 1}${step.last === null ? " open" : ""}`, style: `left:${left}%;width:${Math.max(0.8, right - left)}%` });
}

function spanText(charge, by) {
  const first = charge.covers[0]?.first;
  const last = charge.covers.at(-1)?.last;
  const who = by ? `asked by ${by}, ` : "";
  if (first === undefined) return `${who}ended before its first tick: all of it is back`;
  const number = (tick) => tick.toLocaleString("en-GB");
  if (charge.ended_after === null || charge.ended_after === undefined) return `${who}tick ${number(first)} ${last ? `to ${number(last)}` : "on"}`;
  const back = last !== null && last <= charge.ended_after ? `: free again from tick ${number(last + 1)}` : ", and gives nothing back";
  return `${who}ended after tick ${number(charge.ended_after)}${back}`;
}
