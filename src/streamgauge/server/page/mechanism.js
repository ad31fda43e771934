// A fold of the plan form: which mechanism is to count, and how many events are expected. Both may be left as they are.

import { el, show } from "./dom.js";

const AUTO = "auto";
const USUAL = "usual";
const SMOOTHERS = [[USUAL, "as it comes"], ["median", "median: as published"], ["average", "average"], ["james_stein", "James-Stein"], ["quiet", "quiet: for streams mostly near 0"]];

/** Which mechanisms smooth, by their names. */
const smooths = (name) => name.startsWith("Pegasus");

export class MechanismFold {
  /** changed(): something was written. */
  constructor(stream, changed) {
    const option = ([value, text]) => el("option", { value }, text);
    const names = (stream?.mechanisms ?? []).map((name) => [name, name]);
    this.mechanism = el("select", { name: "mechanism", change: () => { this.#fit(); changed(); } }, [[AUTO, "chosen: the least predicted error"], ...names].map(option));
    this.smoother = el("select", { name: "smoother", change: changed }, SMOOTHERS.map(option));
    this.expected = el("input", { name: "expected", inputmode: "decimal", autocomplete: "off", spellcheck: "false", placeholder: "not said", input: changed });
    this.smoothing = apart("Smoother", this.smoother);
    this.node = el("details", { class: "fold" }, el("summary", {}, "Mechanism and what you expect"),
      el("div", { class: "fields" }, apart("Mechanism", this.mechanism), this.smoothing, apart("Expected events", this.expected)),
      el("p", { class: "hint", id: "expected-hint" }, "Of one group in one tick, as 0.5 or 1/200: what you knew before. Errors are predicted from it, and where few are expected a counter for few events may be chosen."));
    this.expected.setAttribute("aria-describedby", "expected-hint");
    this.#fit();
  }

  #fit() {
    show(this.smoothing, smooths(this.mechanism.value));
  }

  /** What is written, by name. */
  get draft() {
    return { mechanism: this.mechanism.value, smoother: this.smoother.value, expected: this.expected.value };
  }

  /** What was written in another form; the fold is open where that is not as it comes. */
  write(draft) {
    for (const [name, text] of Object.entries(draft)) if (this[name]?.matches?.("select, input")) this[name].value = text;
    this.node.open = this.mechanism.value !== AUTO || this.expected.value !== "";
    this.#fit();
  }

  /** The keys of a release; none that are as they come. */
  body() {
    const { mechanism, smoother, expected } = this.draft;
    const named = smooths(mechanism) && smoother !== USUAL ? { name: mechanism, smoother } : mechanism;
    const number = expected.trim();
    return { ...(mechanism !== AUTO && { mechanism: named }), ...(number && { expected: Number.isFinite(Number(number)) ? Number(number) : number }) };
  }
}

/** A label beside its control: one around a list would be called by all that is in the list. */
function apart(label, input) {
  input.id = `ask-${input.name}`;
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input);
}

export const field = (label, input, hint) => el("label", { class: "field" }, label, input, hint && el("small", {}, hint));
