// The plan form: an analyst writes SQL, a window and a loss, sees what it costs and how wrong it will be, and only
// then asks. Planning reads declarations and the ledger: it spends nothing, and says nothing about the data.

import { post } from "./api.js";
import { byId, el, show } from "./dom.js";
import { MechanismFold, field } from "./mechanism.js";
import { planned, refused } from "./planned.js";
import { currency, lossText, sign } from "./numbers.js";
import { formOf, isAllReports, readsReports, reportsOf } from "./of_reports.js";
import { isAhead } from "./times.js";

const DECAYED = "decayed half-life";
const POLYNOMIAL = "decayed polynomial";
const WINDOWS = [["running", "running: since its first tick"], ["each", "each: every tick by itself"],
  ["sliding", "sliding: the last …"], [DECAYED, "decayed: older counts less, half-life …"],
  [POLYNOMIAL, "decayed: by a power of the age in ticks, exponent …"]];
const SIZES = { span: ["30s", "How long"], power: ["1.5", "Exponent"] };

const DRAFT = ["name", "sql", "window", "span", "loss"];

/** What somebody can still spend: of a live stream that is over nothing, whatever is left. */
export function leftText(who, stream) {
  if (stream?.arrival === "live" && stream.end && !isAhead(stream.end)) return " The stream has ended: no release can begin any more.";
  if (isAllReports(stream)) return " Asking costs nothing: reports have lost their epsilon already.";
  const free = reportsOf(stream);
  return (who.left ? ` You have ${lossText(who.left)} left.` : "") + (free.length ? ` What is asked of ${free.join(", ")} costs nothing.` : "");
}

export class Asking {
  /** done(): a release was asked for; forbidden(): whoever asked may not, any more. */
  constructor({ done, signIn, say, forbidden }) {
    Object.assign(this, { done, signIn, say, forbidden, who: null, stream: null, plan: null, draft: {}, made: "" });
  }

  /** Who is signed in, over which stream; the form is made once for both, with what was written in the last one. */
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

  /** What is asked of reports has no price and no mechanism to choose. */
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
    const kept = this.draft.sql && !this.who?.name && el("p", { class: "hint why" }, "What you wrote is kept until you sign in again.");
    return [
      kept,
      el("p", {}, isAllReports(this.stream) ? "Analysts ask for new statistics in SQL, and see the error first. It costs nothing: reports have lost their epsilon already."
        : "Analysts ask for new statistics in SQL: they see the price and the error first, and pay from a share of the budget."),
      el("pre", { class: "sample" }, el("code", {}, sample(this.stream))),
      columnsText(this.stream) && el("p", { class: "hint" }, columnsText(this.stream)),
      this.who?.name
        ? el("p", { class: "hint" }, `Signed in as ${this.who.name}. Your token reads only: the curator can make one that asks.`)
        : el("button", { type: "button", class: "main", click: this.signIn }, "Sign in to ask"),
    ];
  }

  /** What is left to whoever is signed in, as of now. */
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
    this.asker = el("button", { type: "submit", class: "main", disabled: true }, "Ask for it");
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

  /** What was planned is not what is written any more. */
  #stale() {
    this.plan = null;
    this.asker.disabled = true;
    this.answer.dataset.stale = this.answer.childElementCount ? "true" : "";
  }

  async #plan() {
    const body = this.#body();
    await this.#busy(this.planner, async () => {
      const told = await post("/api/plan", body);
      this.plan = told.refused.length ? null : body;
      this.asker.disabled = !this.plan;
      this.#show(planned(told, this.file));
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
      this.#show(refused(refusal.reasons?.length ? refusal.reasons : [refusal.message], this.file));
      if (refusal.status === 401 || refusal.status === 403) await this.forbidden();
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
}

/** What came of an ask: what is read off reports costs nothing. */
export const grantedText = ({ name, column, first_tick: first }) =>
  `${name} ${column ? "costs nothing" : "was charged"} and starts with tick ${first.toLocaleString("en-GB")}`;

/** Reports have no decayed windows, and a power of the age needs a last tick. */
const offers = (window, stream) =>
  !(window.startsWith("decayed") && isAllReports(stream)) && (window !== POLYNOMIAL || Boolean(stream?.end));

const needsSpan = (window) => window !== "running" && window !== "each";

/** What may be written of: public by declaration. */
function columnsText(stream) {
  const [column] = reportsOf(stream);
  const told = (stream?.columns ?? []).map(({ name, values, bounds }) => {
    if (values) return `${name} (${values.slice(0, 6).join(", ")}${values.length > 6 ? ", …" : ""})`;
    return bounds ? `${name} (${bounds[0]} to ${bounds[1]})` : name;
  });
  const form = column ? `. Of reports there is one form: ${formOf(stream, column)}` : "";
  return told.length ? `${stream.name} has ${told.join(", ")}${form}` : null;
}

/** Of reports first, for they are free. */
function sample(stream) {
  const [column] = reportsOf(stream);
  return column ? formOf(stream, column) : `SELECT COUNT(*) FROM ${stream?.name ?? "visits"}`;
}
