// Optional part of the request form: the mechanism, and the number of expected events.

import { el, show } from "./dom.js";

const AUTO = "auto";
const DEFAULT = "usual";
const SMOOTHERS = [[DEFAULT, "default"], ["median", "median: as in the paper"], ["average", "average"], ["james_stein", "James-Stein"], ["quiet", "quiet: for streams that are mostly near 0"]];

/** Return whether a mechanism has a smoother. */
const isSmoother = (name) => name.startsWith("Pegasus");

export class MechanismFold {
  /** onChange(): the user edited a field. */
  constructor(stream, onChange) {
    const option = ([value, text]) => el("option", { value }, text);
    const names = (stream?.mechanisms ?? []).map((name) => [name, name]);
    this.mechanism = el("select", { name: "mechanism", change: () => { this.#updateFields(); onChange(); } }, [[AUTO, "auto: least predicted error"], ...names].map(option));
    this.smoother = el("select", { name: "smoother", change: onChange }, SMOOTHERS.map(option));
    this.expected = el("input", { name: "expected_events", inputmode: "decimal", autocomplete: "off", spellcheck: "false", placeholder: "unknown", input: onChange });
    this.smoothing = labelField("Smoother", this.smoother);
    this.node = el("details", { class: "fold" }, el("summary", {}, "Mechanism and expected events"),
      el("div", { class: "fields" }, labelField("Mechanism", this.mechanism), this.smoothing, labelField("Expected events", this.expected)),
      el("p", { class: "hint", id: "expected-hint" }, "Expected events of one group in one tick, such as 0.5 or 1/200: a number that you knew before, not one from this data. The plan predicts errors from it. If it is small, the plan may choose a counter for few events."));
    this.expected.setAttribute("aria-describedby", "expected-hint");
    this.#updateFields();
  }

  #updateFields() {
    show(this.smoothing, isSmoother(this.mechanism.value));
  }

  /** The contents of the fields, by name. */
  get draft() {
    return { mechanism: this.mechanism.value, smoother: this.smoother.value, expected: this.expected.value };
  }

  /** Restore a draft; open the fold if it differs from the defaults. */
  write(draft) {
    for (const [name, text] of Object.entries(draft)) if (this[name]?.matches?.("select, input")) this[name].value = text;
    this.node.open = this.mechanism.value !== AUTO || this.expected.value !== "";
    this.#updateFields();
  }

  /** Return the keys of the release that differ from the defaults. */
  body() {
    const { mechanism, smoother, expected } = this.draft;
    const setting = isSmoother(mechanism) && smoother !== DEFAULT ? { name: mechanism, smoother } : mechanism;
    const number = expected.trim();
    return { ...(mechanism !== AUTO && { mechanism: setting }), ...(number && { expected_events: Number.isFinite(Number(number)) ? Number(number) : number }) };
  }
}

/** Return a field whose label does not contain its control: the options of a list would become part of the label. */
function labelField(label, input) {
  input.id = `ask-${input.name}`;
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input);
}

export const field = (label, input, hint) => el("label", { class: "field" }, label, input, hint && el("small", {}, hint));
