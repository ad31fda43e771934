// The request form. An analyst enters SQL, a window and a loss, reads the predicted cost and error, then requests the
// release. A plan reads declarations and the ledger only. It spends nothing and reveals nothing about the data.

import { post } from "./api.js";
import { byId, choice, el, show } from "./dom.js";
import { MapperEditor } from "./mapper_editor.js";
import { MechanismFold, field } from "./mechanism.js";
import { buildPlan, buildRefusal } from "./plan_view.js";
import { currencies, lossText, parseFraction } from "./numbers.js";
import { buildReportQuery, isAllReports, readsReports, reportColumns } from "./report_columns.js";
import { isFuture } from "./times.js";

const SLIDING = "sliding";
const HALF_LIFE = "decayed half-life";
const POLYNOMIAL = "decayed polynomial";
const WINDOWS = [["running", "running: all ticks since its first"], ["each", "each: every tick separately"],
  [SLIDING, "sliding: the last …, or several, such as 1h, 24h"], ["tumbling", "tumbling: each period of …"],
  [HALF_LIFE, "decayed: older events count less, half-life …"],
  [POLYNOMIAL, "decayed: power of the age in ticks, exponent …"]];
const WINDOW_SIZES = { span: ["30s", "How long"], power: ["1.5", "Exponent"] };

const DRAFT_FIELDS = ["name", "sql", "window", "span", "currency", "loss", "delta"];
const CURRENCY_WORDS = { epsilon: "ε, Laplace noise", rho: "ρ, Gaussian noise", share: "share of the budget" };
const USUAL_LOSS = { epsilon: 0.2, rho: 0.02, share: 0.1 };
const DEFAULT_PART = 0.1; // of what is left

/** Return the text about the remaining share. After the end of a live stream it cannot be spent. */
export function remainingText(user, stream) {
  if (stream?.mode === "streaming" && stream.end && !isFuture(stream.end)) return " The stream has ended, so no release can start.";
  if (isAllReports(stream)) return " Requests cost nothing: devices have spent their epsilon already.";
  const free = reportColumns(stream);
  return (user.remaining ? ` You have ${lossText(user.remaining)} left.` : "") + (free.length ? ` Requests for ${free.join(", ")} cost nothing.` : "");
}

export class RequestForm {
  /** onRequest(): a release was requested; onForbidden(): the session was revoked. */
  constructor({ onRequest, signIn, say, onForbidden }) {
    Object.assign(this, { onRequest, signIn, say, onForbidden, user: null, stream: null, plan: null, draft: {}, builtFor: "" });
  }

  /** Set the session, the stream and the ledger. The form is rebuilt, with the draft, only if they differ. */
  setContext({ user, stream, ledger }) {
    Object.assign(this, { user, stream, file: ledger.file, budget: ledger.budget });
    const context = JSON.stringify([user?.role, user?.name, stream.name, currencies(ledger.budget), "delta" in (ledger.budget ?? {})]);
    if (this.builtFor !== context) this.#build();
    this.builtFor = context;
    this.updateShare();
  }

  #canRequest() {
    return this.user?.role === "analyst" || this.user?.role === "curator";
  }

  #build() {
    this.plan = null;
    this.share = null;
    byId("ask-body").replaceChildren(...(this.#canRequest() ? this.#form() : this.#invitation()).filter(Boolean));
  }

  #restoreDraft() {
    for (const name of DRAFT_FIELDS) if (name in this.draft) this[name].value = this.draft[name];
    this.fold.write(this.draft);
    this.editor.write(this.draft);
    this.#updateFields();
  }

  /** Return whether the request has a mapper instead of SQL. */
  get isMapped() { return this.draft.language === "mapper"; }

  /** Show the fields that apply. Releases of reports have no loss and no mechanism. */
  #updateFields() {
    const sizeKind = this.window.value === POLYNOMIAL ? "power" : "span";
    if (this.sizeKind !== sizeKind && this.sizeKind) this.span.value = this.draft.span = WINDOW_SIZES[sizeKind][0];
    this.sizeKind = sizeKind;
    this.span.setAttribute("aria-label", WINDOW_SIZES[sizeKind][1]);
    show(this.span, needsSpan(this.window.value));
    this.free = !this.isMapped && readsReports(this.sql.value, this.stream);
    show(this.sqlField, !this.isMapped);
    show(this.editor.node, this.isMapped);
    for (const node of [this.lossField, this.fold.node]) show(node, !this.free);
    show(this.deltaField, this.#needsDelta());
  }

  /** Return whether the SQL names a column whose groups are discovered, which takes a part of the budget's delta. */
  #needsDelta() {
    const names = (this.stream?.columns ?? []).filter((column) => column.discovered).map(({ name }) => name);
    return !this.free && !this.isMapped && "delta" in (this.budget ?? {}) && names.some((name) => new RegExp(`\\b${name}\\b`, "i").test(this.sql.value));
  }

  /** Return a tenth of what is left in a currency, or the usual loss. */
  #defaultLoss(name) {
    const left = parseFraction(this.user?.remaining?.[name] ?? 0);
    return String(left > 0 && currencies(this.budget).length > 2 ? Number((DEFAULT_PART * left).toPrecision(2)) : USUAL_LOSS[name]);
  }

  /** Fill in a loss from the plan. */
  #useLoss(loss) {
    const name = "rho" in loss ? "rho" : "epsilon";
    this.currency.value = this.draft.currency = name;
    this.loss.value = this.draft.loss = String(parseFraction(loss[name]));
    this.#discardPlan();
    this.#plan();
  }

  #invitation() {
    const draftHint = this.draft.sql && !this.user?.name && el("p", { class: "hint why" }, "Your draft is still here. Sign in again to continue.");
    return [
      draftHint,
      el("p", {}, isAllReports(this.stream) ? "Analysts request new statistics in SQL and see the error first. Requests cost nothing: devices have spent their epsilon already."
        : "Analysts request new statistics in SQL. They see the cost and the error first, and pay from a share of the budget."),
      el("pre", { class: "sample" }, el("code", {}, buildSample(this.stream))),
      columnsText(this.stream) && el("p", { class: "hint" }, columnsText(this.stream)),
      this.user?.name
        ? el("p", { class: "hint" }, `Signed in as ${this.user.name}. Your token can only read. Ask the curator for an analyst token.`)
        : el("button", { type: "button", class: "main", click: this.signIn }, "Sign in to request"),
    ];
  }

  /** Show the remaining share of the session. */
  updateShare() {
    if (!this.share) return;
    const { user } = this;
    this.share.textContent = user ? `Signed in as ${user.name} (${user.role}).${remainingText(user, this.stream)}` : "";
  }

  #form() {
    const names = currencies(this.budget);
    const changed = () => { for (const name of DRAFT_FIELDS) this.draft[name] = this[name].value; Object.assign(this.draft, this.fold.draft, this.editor.draft); this.#updateFields(); this.#discardPlan(); };
    this.share = el("p", { class: "hint" });
    this.name = el("input", { name: "name", required: true, value: "my_release", pattern: "[A-Za-z_][A-Za-z0-9_]*", spellcheck: "false", autocomplete: "off", input: changed });
    this.sql = el("textarea", { name: "sql", rows: "4", required: true, spellcheck: "false", input: changed });
    this.sql.value = buildSample(this.stream);
    this.span = el("input", { name: "span", value: "30s", size: "8", "aria-label": "How long", input: changed, hidden: true });
    this.window = el("select", { name: "window", change: changed },
      WINDOWS.filter(([value]) => isOffered(value, this.stream)).map(([value, text]) => el("option", { value }, text)));
    const other = () => { this.loss.value = this.#defaultLoss(this.currency.value); changed(); };
    this.currency = el("select", { name: "currency", "aria-label": "Currency", change: other }, names.map((name) => el("option", { value: name }, CURRENCY_WORDS[name])));
    this.loss = el("input", { name: "loss", type: "number", min: "0.000001", step: "any", value: this.#defaultLoss(names[0]), required: true, inputmode: "decimal", "aria-label": "Loss", input: changed });
    this.lossField = el("div", { class: "field" }, el("span", {}, "Loss"), el("span", { class: "joined" }, this.loss, this.currency));
    this.delta = el("input", { name: "delta", inputmode: "decimal", autocomplete: "off", spellcheck: "false", placeholder: "1e-8", input: changed });
    this.deltaField = field("Delta (δ)", this.delta, "For discovered groups: a part of the budget's delta, in addition.");
    this.fold = new MechanismFold(this.stream, changed);
    this.editor = new MapperEditor(this.stream, changed);
    this.sqlField = field("SQL", this.sql, columnsText(this.stream));
    const languages = choice("Language", [["sql", "SQL"], ["mapper", "Mapper"]], this.isMapped ? "mapper" : "sql", (value) => { this.draft.language = value; changed(); });
    this.requestButton = el("button", { type: "submit", class: "main", disabled: true }, "Request it");
    this.planButton = el("button", { type: "button", click: () => this.#plan() }, "See cost and error");
    this.answer = el("div", { class: "answer", "aria-live": "polite" });
    this.sizeKind = null;
    this.#restoreDraft();
    return [el("form", { id: "ask-form", novalidate: true, submit: (event) => { event.preventDefault(); this.#request(); } },
      this.share,
      !isAllReports(this.stream) && languages, this.sqlField, this.editor.node,
      el("div", { class: "fields two" }, field("Window", el("span", { class: "joined" }, this.window, this.span)),
        field("Name", this.name), this.lossField, this.deltaField),
      this.fold.node,
      el("div", { class: "row" }, this.planButton, this.requestButton),
      this.answer)];
  }

  #body() {
    const kind = this.window.value;
    const window = needsSpan(kind) ? buildWindow(kind, this.span.value) : kind;
    const query = this.isMapped ? { map: this.editor.body(), reduce: this.editor.reduce.value } : { sql: this.sql.value.trim() };
    const release = { name: this.name.value.trim(), ...query, window, ...(kind === POLYNOMIAL && { horizon: "end" }) };
    const delta = this.delta.value.trim();
    return this.free ? release : {
      ...release, [this.currency.value]: Number(this.loss.value), ...(this.#needsDelta() && delta && { delta: Number(delta) }), ...this.fold.body(),
    };
  }

  /** Discard the plan, and mark its text as outdated. */
  #discardPlan() {
    this.plan = null;
    this.requestButton.disabled = true;
    this.answer.dataset.stale = this.answer.childElementCount ? "true" : "";
  }

  async #plan() {
    const body = this.#body();
    await this.#busy(this.planButton, async () => {
      const result = await post("/api/plan", body);
      this.plan = result.refusals.length ? null : body;
      this.requestButton.disabled = !this.plan;
      this.#show(buildPlan(result, this.file, (loss) => this.#useLoss(loss)));
    });
  }

  async #request() {
    if (!this.plan) return;
    await this.#busy(this.requestButton, async () => {
      const granted = grantedText((await post("/api/releases", this.plan)).release);
      this.#discardPlan();
      this.#show(el("p", { class: "granted" }, `${granted}. Its chart is above.`));
      this.say(granted);
      await this.onRequest();
    });
  }

  #show(node) {
    this.answer.dataset.stale = "";
    this.answer.replaceChildren(node);
  }

  async #busy(button, action) {
    button.setAttribute("aria-busy", "true");
    try {
      await action();
    } catch (refusal) {
      this.#discardPlan();
      this.#show(buildRefusal(refusal.reasons?.length ? refusal.reasons : [refusal.message], this.file));
      if (refusal.status === 401 || refusal.status === 403) await this.onForbidden();
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
}

/** Return the text of a granted request. Releases of reports cost nothing. */
export const grantedText = ({ name, column, first_tick: first }) =>
  `${name} ${column ? "costs nothing" : "was charged"} and starts with tick ${first.toLocaleString("en-GB")}`;

/** Return whether a window is possible. Reports have no decayed windows and no periods; polynomial decay needs a last tick. */
const isOffered = (window, stream) =>
  !((window.startsWith("decayed") || window === "tumbling") && isAllReports(stream)) && (window !== POLYNOMIAL || Boolean(stream?.end));

/** Return a window of a size. Several sizes of sliding windows, with commas, are one release with a column for each. */
function buildWindow(kind, sizes) {
  const several = kind === SLIDING ? sizes.split(",").map((size) => size.trim()).filter(Boolean) : [];
  return several.length > 1 ? several.map((size) => `${kind} ${size}`) : `${kind} ${several[0] ?? sizes.trim()}`;
}

const needsSpan = (window) => window !== "running" && window !== "each";

/** Return the columns that SQL may name. They are public by declaration. */
function columnsText(stream) {
  const [column] = reportColumns(stream);
  const result = (stream?.columns ?? []).map(({ name, values, bounds }) => {
    if (values) return `${name} (${values.slice(0, 6).join(", ")}${values.length > 6 ? ", …" : ""})`;
    return bounds ? `${name} (${bounds[0]} to ${bounds[1]})` : name;
  });
  const form = column ? `. Reports allow one query: ${buildReportQuery(stream, column)}` : "";
  return result.length ? `${stream.name} has ${result.join(", ")}${form}` : null;
}

/** Return sample SQL: of reports if there are any, because they are free. */
function buildSample(stream) {
  const [column] = reportColumns(stream);
  return column ? buildReportQuery(stream, column) : `SELECT COUNT(*) FROM ${stream?.name ?? "visits"}`;
}
