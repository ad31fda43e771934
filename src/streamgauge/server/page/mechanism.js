// Optional part of the request form: the mechanism, and the number of expected events.

import { el, show } from "./dom.js";

const AUTO = "auto";
const USUAL = "usual";
const SMOOTHERS = [[USUAL, "as it comes"], ["median", "median: as published"], ["average", "average"], ["james_stein", "James-Stein"], ["quiet", "quiet: for streams mostly near 0"]];

/** Names of mechanisms that smooth. */
const smooths = (name) => name.startsWith("Pegasus");

export class MechanismFold {
  /** changed(): the user edited a field. */
  constructor(stream, changed) {
    const option = ([value, text]) => el("option", { value }, text);
    const names = (stream?.mechanisms ?? []).map((name) => [name, name]);
    this.mechanism = el("select", { name: "mechanism", change: () => { this.#fit(); changed(); } }, [[AUTO, "chosen: the least predicted error"], ...names].map(option));
    this.smoother = el("select", { name: "smoother", change: changed }, SMOOTHERS.map(option));
    this.expected = el("input", { name: "expected_events", inputmode: "decimal", autocomplete: "off", spellcheck: "false", placeholder: "not said", input: changed });
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

  /** Contents by field name. */
  get draft() {
    return { mechanism: this.mechanism.value, smoother: this.smoother.value, expected: this.expected.value };
  }

  /** Restore a draft; open the fold if it differs from the defaults. */
  write(draft) {
    for (const [name, text] of Object.entries(draft)) if (this[name]?.matches?.("select, input")) this[name].value = text;
    this.node.open = this.mechanism.value !== AUTO || this.expected.value !== "";
    this.#fit();
  }

  /** Keys of a release that differ from the defaults. */
  body() {
    const { mechanism, smoother, expected } = this.draft;
    const named = smooths(mechanism) && smoother !== USUAL ? { name: mechanism, smoother } : mechanism;
    const number = expected.trim();
    return { ...(mechanism !== AUTO && { mechanism: named }), ...(number && { expected_events: Number.isFinite(Number(number)) ? Number(number) : number }) };
  }
}

/** A label beside its control, since a label around a list would be named by the whole list. */
function apart(label, input) {
  input.id = `ask-${input.name}`;
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input);
}

export const field = (label, input, hint) => el("label", { class: "field" }, label, input, hint && el("small", {}, hint));
