// The editor of a mapper: code with line numbers, refusals beside their lines, and a dry run on rows that a person types.
// The server checks the code. Rows are those of the form, never of the stream.

import { post } from "./api.js";
import { el, show } from "./dom.js";
import { field } from "./mechanism.js";

const REDUCERS = ["count", "sum", "mean", "variance", "stddev", "median", "min", "max"];
const CHECK_DELAY = 500; // milliseconds after the last key
const FIELDS = ["source", "columns", "keys", "pairs", "bounds", "reduce", "rows"];

const split = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

/** Return whole numbers if all keys are, else texts. */
export const parseKeys = (text) => (split(text).every((key) => /^-?\d+$/.test(key)) ? split(text).map(Number) : split(text));

/** Return the typed rows, one JSON object a line. Throws SyntaxError. */
export const parseRows = (text) => text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));

/** Return sample code for the first column of a stream. */
export function buildSource(stream) {
  const [column] = stream?.columns ?? [];
  return `def mapper(${column?.name ?? "text"}):\n    emit("all", 1)\n`;
}

export class MapperEditor {
  constructor(stream, changed) {
    this.timer = 0;
    this.changed = () => { changed(); this.#number(); clearTimeout(this.timer); this.timer = setTimeout(() => this.check(), CHECK_DELAY); };
    const input = (name, value, more = {}) => el("input", { name, value, spellcheck: "false", autocomplete: "off", input: this.changed, ...more });
    this.source = el("textarea", { name: "source", rows: "10", spellcheck: "false", "aria-label": "Mapper", input: this.changed, scroll: () => { this.lines.scrollTop = this.source.scrollTop; } });
    this.lines = el("ol", { class: "lines", "aria-hidden": "true" });
    this.refusal = el("p", { class: "refusal-line", role: "alert", hidden: true });
    this.columns = input("columns", stream?.columns?.[0]?.name ?? "");
    this.keys = input("keys", "all");
    this.pairs = input("max_pairs", "1", { type: "number", min: "1", step: "1" });
    this.bounds = input("bounds", "", { placeholder: "0, 30" });
    this.reduce = el("select", { name: "reduce", change: this.changed }, REDUCERS.map((name) => el("option", { value: name }, name)));
    this.rows = el("textarea", { name: "rows", rows: "3", spellcheck: "false", input: this.changed, placeholder: '{"column": "a value"}' });
    this.result = el("div", { class: "tried", "aria-live": "polite" });
    this.node = el("div", { class: "mapper", hidden: true },
      el("div", { class: "code" }, this.lines, this.source), this.refusal,
      el("div", { class: "fields two" }, field("Columns", this.columns), field("Keys", this.keys, "All that can come out, with commas."),
        field("Keys of one record", this.pairs), field("Bounds of a value", this.bounds, "Not needed to count."), field("Reduce", this.reduce)),
      field("Try it on rows of your own", this.rows, "One JSON object a line. Nothing is read from the stream."), this.result);
    this.source.value = buildSource(stream);
    this.#number();
  }

  /** The mapper, as a request has it. */
  body() {
    const bounds = split(this.bounds.value).map(Number);
    return { source: this.source.value, columns: split(this.columns.value), keys: parseKeys(this.keys.value), max_pairs: Number(this.pairs.value),
      ...(bounds.length && { bounds }) };
  }

  get draft() { return Object.fromEntries(FIELDS.map((name) => [`map_${name}`, this[name].value])); }

  write(draft) {
    for (const name of FIELDS) if (`map_${name}` in draft) this[name].value = draft[`map_${name}`];
    this.#number();
  }

  /** Check the code, and run it on the typed rows. */
  async check() {
    let rows;
    try {
      rows = parseRows(this.rows.value);
      const { refusal, rows: tried } = await post("/api/mappers/check", { map: this.body(), rows });
      this.#refuse(refusal);
      this.result.replaceChildren(...tried.map((row, place) => el("p", {}, `Row ${place + 1}: ${describeRow(row)}`)));
    } catch (failure) {
      this.#refuse({ message: failure instanceof SyntaxError ? "rows must be JSON objects, one a line" : failure.message, line: null });
    }
  }

  /** Mark the refused line, and show the reason below the code. */
  #refuse(refusal) {
    this.#number(refusal?.line);
    this.refusal.textContent = refusal?.message ?? "";
    show(this.refusal, Boolean(refusal));
  }

  #number(marked = null) {
    const count = this.source.value.split("\n").length;
    this.lines.replaceChildren(...Array.from({ length: count }, (_, place) => el("li", { class: place + 1 === marked ? "marked" : null }, String(place + 1))));
  }
}

/** Return the pairs of a row in words. */
export function describeRow({ pairs, steps, is_complete: complete }) {
  if (!complete) return `no pairs: more than ${steps - 1} steps`;
  const shown = pairs.map(({ key, value }) => `${key}: ${value}`).join(", ");
  return `${shown || "no pairs"} (${steps} ${steps === 1 ? "step" : "steps"})`;
}
