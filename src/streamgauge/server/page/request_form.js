// The request form: an analyst writes SQL, a window and a loss, reads the predicted cost and error, and only then
// requests the release. Planning reads declarations and the ledger. It spends nothing and reveals nothing about the data.

import { post } from "./api.js";
import { byId, el, show } from "./dom.js";
import { MechanismFold, field } from "./mechanism.js";
import { buildPlan, buildRefusal } from "./plan_view.js";
import { currency, lossText, sign } from "./numbers.js";
import { formOf, isAllReports, readsReports, reportsOf } from "./report_columns.js";
import { isAhead } from "./times.js";

const DECAYED = "decayed half-life";
const POLYNOMIAL = "decayed polynomial";
const WINDOWS = [["running", "running: since its first tick"], ["each", "each: every tick by itself"],
  ["sliding", "sliding: the last …"], [DECAYED, "decayed: older counts less, half-life …"],
  [POLYNOMIAL, "decayed: by a power of the age in ticks, exponent …"]];
const SIZES = { span: ["30s", "How long"], power: ["1.5", "Exponent"] };

const DRAFT = ["name", "sql", "window", "span", "loss"];

/** Text of the remaining share. After the end of a live stream nothing can be spent. */
export function leftText(who, stream) {
  if (stream?.mode === "streaming" && stream.end && !isAhead(stream.end)) return " The stream has ended: no release can begin any more.";
  if (isAllReports(stream)) return " Requests cost nothing: devices have spent their epsilon already.";
  const free = reportsOf(stream);
  return (who.remaining ? ` You have ${lossText(who.remaining)} left.` : "") + (free.length ? ` Requests over ${free.join(", ")} cost nothing.` : "");
}

export class RequestForm {
  /** done(): a release was requested; forbidden(): the session lost its right. */
  constructor({ done, signIn, say, forbidden }) {
    Object.assign(this, { done, signIn, say, forbidden, who: null, stream: null, plan: null, draft: {}, made: "" });
  }

  /** Set the session and the stream. The form is built once for both, with the last draft. */
  know({ who, stream, book }) {
    Object.assign(this, { who, stream, file: book.file, budget: book.budget });
    const now = JSON.stringify([who?.role, who?.name, stream.name, currency(book.budget)]);
    if (this.made !== now) this.#make();
    this.made = now;
    this.tell();
  }

  #may() {
    return this.who?.role === "analyst" || this.who?.role === "curator";
  }

  #make() {
    this.plan = null;
    this.share = null;
    byId("ask-body").replaceChildren(...(this.#may() ? this.#form() : this.#invitation()).filter(Boolean));
  }

  #write() {
    for (const name of DRAFT) if (name in this.draft) this[name].value = this.draft[name];
    this.fold.write(this.draft);
    this.#fit();
  }

  /** Hide cost and mechanism for releases of reports, which have neither. */
  #fit() {
    const sized = this.window.value === POLYNOMIAL ? "power" : "span";
    if (this.sized !== sized && this.sized) this.span.value = this.draft.span = SIZES[sized][0];
    this.sized = sized;
    this.span.setAttribute("aria-label", SIZES[sized][1]);
    show(this.span, needsSpan(this.window.value));
    this.free = readsReports(this.sql.value, this.stream);
    for (const node of [this.price, this.fold.node]) show(node, !this.free);
  }

  #invitation() {
    const kept = this.draft.sql && !this.who?.name && el("p", { class: "hint why" }, "Your draft stays here until you sign in again.");
    return [
      kept,
      el("p", {}, isAllReports(this.stream) ? "Analysts request new statistics in SQL, and see the error first. It costs nothing: devices have spent their epsilon already."
        : "Analysts request new statistics in SQL. They see the cost and the error first, and pay from a share of the budget."),
      el("pre", { class: "sample" }, el("code", {}, sample(this.stream))),
      columnsText(this.stream) && el("p", { class: "hint" }, columnsText(this.stream)),
      this.who?.name
        ? el("p", { class: "hint" }, `Signed in as ${this.who.name}. Your token can only read: the curator can create one for requests.`)
        : el("button", { type: "button", class: "main", click: this.signIn }, "Sign in to request"),
    ];
  }

  /** Show the remaining share of the session. */
  tell() {
    if (!this.share) return;
    const { who } = this;
    this.share.textContent = who ? `Signed in as ${who.name} (${who.role}).${leftText(who, this.stream)}` : "";
  }

  #form() {
    const unit = currency(this.budget);
    const changed = () => { for (const name of DRAFT) this.draft[name] = this[name].value; Object.assign(this.draft, this.fold.draft); this.#fit(); this.#stale(); };
    this.share = el("p", { class: "hint" });
    this.name = el("input", { name: "name", required: true, value: "my_release", pattern: "[A-Za-z_][A-Za-z0-9_]*", spellcheck: "false", autocomplete: "off", input: changed });
    this.sql = el("textarea", { name: "sql", rows: "4", required: true, spellcheck: "false", input: changed });
    this.sql.value = sample(this.stream);
    this.span = el("input", { name: "span", value: "30s", size: "6", "aria-label": "How long", input: changed, hidden: true });
    this.window = el("select", { name: "window", change: changed },
      WINDOWS.filter(([value]) => offers(value, this.stream)).map(([value, text]) => el("option", { value }, text)));
    this.loss = el("input", { name: unit, type: "number", min: "0.000001", step: "any", value: "0.2", required: true, inputmode: "decimal", input: changed });
    this.price = field(`Loss (${unit}, ${sign(unit)})`, this.loss);
    this.fold = new MechanismFold(this.stream, changed);
    this.asker = el("button", { type: "submit", class: "main", disabled: true }, "Request it");
    this.planner = el("button", { type: "button", click: () => this.#plan() }, "See cost and error");
    this.answer = el("div", { class: "answer", "aria-live": "polite" });
    this.sized = null;
    this.#write();
    return [el("form", { id: "ask-form", novalidate: true, submit: (event) => { event.preventDefault(); this.#ask(); } },
      this.share,
      field("SQL", this.sql, columnsText(this.stream)),
      el("div", { class: "fields" }, field("Window", el("span", { class: "joined" }, this.window, this.span)),
        this.price, field("Name", this.name)),
      this.fold.node,
      el("div", { class: "row" }, this.planner, this.asker),
      this.answer)];
  }

  #body() {
    const kind = this.window.value;
    const window = kind === "running" || kind === "each" ? kind : `${kind} ${this.span.value.trim()}`;
    const asked = { name: this.name.value.trim(), sql: this.sql.value.trim(), window, ...(kind === POLYNOMIAL && { horizon: "end" }) };
    return this.free ? asked : { ...asked, [currency(this.budget)]: Number(this.loss.value), ...this.fold.body() };
  }

  /** Mark the plan as outdated. */
  #stale() {
    this.plan = null;
    this.asker.disabled = true;
    this.answer.dataset.stale = this.answer.childElementCount ? "true" : "";
  }

  async #plan() {
    const body = this.#body();
    await this.#busy(this.planner, async () => {
      const told = await post("/api/plan", body);
      this.plan = told.refusals.length ? null : body;
      this.asker.disabled = !this.plan;
      this.#show(buildPlan(told, this.file));
    });
  }

  async #ask() {
    if (!this.plan) return;
    await this.#busy(this.asker, async () => {
      const granted = grantedText((await post("/api/releases", this.plan)).release);
      this.#stale();
      this.#show(el("p", { class: "granted" }, `${granted}. Its chart is above.`));
      this.say(granted);
      await this.done();
    });
  }

  #show(node) {
    this.answer.dataset.stale = "";
    this.answer.replaceChildren(node);
  }

  async #busy(button, act) {
    button.setAttribute("aria-busy", "true");
    try {
      await act();
    } catch (refusal) {
      this.#stale();
      this.#show(buildRefusal(refusal.reasons?.length ? refusal.reasons : [refusal.message], this.file));
      if (refusal.status === 401 || refusal.status === 403) await this.forbidden();
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
}

/** Text of a granted request. Releases of reports cost nothing. */
export const grantedText = ({ name, column, first_tick: first }) =>
  `${name} ${column ? "costs nothing" : "was charged"} and starts with tick ${first.toLocaleString("en-GB")}`;

/** Reports have no decayed windows, and a power of the age needs a last tick. */
const offers = (window, stream) =>
  !(window.startsWith("decayed") && isAllReports(stream)) && (window !== POLYNOMIAL || Boolean(stream?.end));

const needsSpan = (window) => window !== "running" && window !== "each";

/** Columns that SQL may name; they are public by declaration. */
function columnsText(stream) {
  const [column] = reportsOf(stream);
  const told = (stream?.columns ?? []).map(({ name, values, bounds }) => {
    if (values) return `${name} (${values.slice(0, 6).join(", ")}${values.length > 6 ? ", …" : ""})`;
    return bounds ? `${name} (${bounds[0]} to ${bounds[1]})` : name;
  });
  const form = column ? `. Of reports there is one form: ${formOf(stream, column)}` : "";
  return told.length ? `${stream.name} has ${told.join(", ")}${form}` : null;
}

/** Sample SQL, of reports first, since they are free. */
function sample(stream) {
  const [column] = reportsOf(stream);
  return column ? formOf(stream, column) : `SELECT COUNT(*) FROM ${stream?.name ?? "visits"}`;
}
