// This device in the poll: a pick is privatised here, by client.js, and only the report is sent. It is sent once; while
// no answer has come the same bytes go out again, under the same key, by which the server counts them once for as long
// as it remembers that.

import { Refusal } from "/page/api.js";
import { byId, el, show } from "/page/dom.js";
import { count } from "/page/numbers.js";
import { BadMemory, claimOf, deviceOf, message, takenBy } from "./client.js";
import { earlier, oneMore } from "./kept.js";
import { showCost, showReport } from "./report.js";
import { named, sign } from "./signs.js";
import { sentence } from "./words.js";

const AGAIN = "The report may have arrived; sent again within nine minutes, the same bytes are usually counted once.";
const SEND = { never: "Send a private report", earlier: "Send the same report", refused: "Send it again", unanswered: "Send it again", taken: "Sent: nothing more to send" };
const SAID = { never: "A private report was sent.", earlier: "The same report was sent again." };
const OTHER = "This device reported to a poll of other settings; it sends nothing here.";

/** What became of the report to this poll. "earlier" is one that was drawn for a poll before it, "other" one for a poll
 * of other settings; "late" has no answer, and might count twice if it were sent again. */
function fateOf({ spent, left, last, fate, again }) {
  if (spent === "0") return "never";
  if (last === null) return "other";
  if (left > 0) return "earlier";
  return fate === "unanswered" && again === 0 ? "late" : fate;
}

/** Whether there is something to send: a report for a pick, or the same again, whatever is picked. */
const sends = (fate, item) => (fate === "never" ? item !== null : ["earlier", "refused", "unanswered"].includes(fate));

export class Poll {
  /** changed(): asks what is collected, and whether that is another poll than was opened. */
  constructor({ crowd, status, changed }) {
    Object.assign(this, { crowd, status, changed, device: null, items: [], known: null, busy: false, turn: 0, timer: 0 });
    this.others = new BroadcastChannel("favourite emoji"); // pages of this browser, who tell each other that they acted
    this.others.addEventListener("message", () => this.known && this.#look());
    byId("signs").addEventListener("change", () => (this.busy ? this.#offer() : this.#look()));
    byId("poll").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("forget").addEventListener("click", () => this.forget());
  }

  /** The signs to pick from, and what was sent before. */
  async open(collection, column, items) {
    this.items = items;
    show(byId("refused"), false);
    byId("signs").replaceChildren(byId("signs").querySelector("legend"), ...items.map(choiceOf));
    try {
      const { epsilon: agreed } = claimOf(collection.columns[column].settings); // it is shown before anything is sent
      this.device = deviceOf(collection, column, { agreed, name: "favourite emoji" });
    } catch (error) {
      this.#without(`This poll is not one to report to (${error.message})`);
      return;
    }
    await this.#tell();
  }

  /** Sends what the button says, or nothing if that is no longer so. */
  async send() {
    await this.#alone(async () => {
      const item = picked();
      const { before, wrong } = await this.#sent(this.device, this.known.fate, item);
      await this.#tell({ item, before });
      byId("refused").textContent = wrong;
      show(byId("refused"), wrong !== "");
    });
  }

  /** What had become of the report before, and what went wrong now, if anything did. */
  async #sent(device, shown, item) {
    let before = shown, due = null;
    try {
      before = fateOf(await device.remembered());
      if (before === shown && sends(before, item)) due = await device.due(item);
    } catch (error) {
      return { before, wrong: sentence(`Nothing was sent: ${error.message}`) };
    }
    if (due === null) return { before, wrong: "" };
    const { status, taken, wrong } = await sendBytes(message(device.claim, [due.report]), due.key);
    try {
      await device.answered(due.key, taken);
    } catch (error) {
      return { before, wrong: sentence(`An answer came, which this browser cannot remember: ${error.message}`) };
    }
    if (taken) this.#celebrate(item, before);
    const other = status === 400 && (await this.changed().catch(() => false));
    return { before, wrong: other ? "The poll changed before the report arrived, and did not take it." : wrong };
  }

  #celebrate(item, before) {
    if (item !== null) this.crowd.mark(item);
    this.status.say(SAID[before] ?? "The report of your first pick was sent.");
  }

  /** Forgets the report: to the server this is somebody else, and to nobody but the server. */
  async forget() {
    await this.#alone(async () => {
      if ((await this.device.remembered()).spent !== "0") await oneMore();
      await this.device.forget();
      this.crowd.mark(null);
      byId("poll").reset();
      show(byId("refused"), false);
      await this.#tell();
      this.status.say("To the server this is another device now.");
    });
    byId("signs").querySelector("input")?.focus();
  }

  /** One act at a time. */
  async #alone(act) {
    if (this.busy || this.known === null) return;
    this.busy = true;
    byId("send").setAttribute("aria-busy", "true");
    this.#offer();
    await act().catch((error) => this.#without(whyOf(error)));
    this.others.postMessage(null);
    this.busy = false;
    byId("send").removeAttribute("aria-busy");
    this.#offer();
  }

  /** Another page of this browser may have sent meanwhile. */
  async #look() {
    const before = this.known?.fate;
    const told = await this.device.remembered().catch(() => null);
    if (told === null || fateOf(told) !== before) await this.#tell();
    this.#offer();
  }

  /** All that the page says of this device; `before` is what was known of the report before it was sent just now. */
  async #tell({ item = null, before = null } = {}) {
    const turn = (this.turn += 1);
    try {
      const told = { ...(await this.device.remembered()), earlier: await earlier() };
      if (turn !== this.turn) return;
      this.known = { ...told, fate: fateOf(told) };
    } catch (error) {
      if (turn === this.turn) this.#without(whyOf(error));
      return;
    }
    this.#show(item, before);
    clearTimeout(this.timer);
    if (this.known.fate === "unanswered") this.timer = setTimeout(() => this.#look(), 1000 * this.known.again + 1000);
  }

  #show(item, before) {
    const [{ last: report, fate, spent, earlier: others }, { claim }] = [this.known, this.device];
    if (report !== null) showReport({ claim, items: this.items, item, report, before, fate });
    else tellNone(fate === "other" ? OTHER : nothing(others));
    showCost(claim, fate, others);
    for (const id of ["signs", "acts"]) show(byId(id), true);
    show(byId("without"), false);
    show(byId("forget"), spent !== "0");
    this.#offer();
  }

  /** What can be sent: a report for the pick, the same again under its key, or nothing. */
  #offer() {
    if (this.known === null) return;
    const { fate } = this.known;
    byId("send").textContent = SEND[fate] ?? "Nothing more to send";
    byId("send").disabled = this.busy || !sends(fate, picked());
    byId("forget").disabled = this.busy;
  }

  /** The crowd needs no device. */
  #without(why) {
    this.known = null;
    this.turn += 1;
    for (const id of ["signs", "acts", "refused"]) show(byId(id), false);
    byId("signs").replaceChildren(byId("signs").querySelector("legend"));
    byId("without").textContent = `${why}, so it sends nothing. The crowd is shown all the same.`;
    show(byId("without"), true);
    byId("cost").replaceChildren();
    tellNone("Nothing.");
  }
}

/** Where nothing can be remembered, or read again: a report would be charged anew each time. */
const whyOf = (error) => (error instanceof BadMemory ? "What this browser keeps for this page cannot be read" : "This browser keeps nothing for this page");

const picked = () => new FormData(byId("poll")).get("emoji");

const choiceOf = (item) => el("label", {}, el("input", { type: "radio", name: "emoji", value: item }), sign(item), named(item));

const tellNone = (words) => byId("sent-body").replaceChildren(el("p", { class: "none" }, words));

const nothing = (others) => (others ? `As another device, nothing yet. ${count(others, "report")} ${others === 1 ? "was" : "were"} sent from here before, and cannot be called back.`
  : "Nothing yet. A report will be shown here, byte for byte.");

/** The status of an answer, whether the report was taken, and what went wrong if anything did. */
async function sendBytes(body, key) {
  const headers = { "Content-Type": "application/octet-stream", "Batch-Key": key };
  const answer = await fetch("/api/reports", { method: "POST", headers, body, credentials: "omit" }).catch(() => null);
  const [taken, status] = [await takenBy(answer), answer?.status];
  if (taken) return { status, taken, wrong: "" };
  if (answer === null) return { status, taken, wrong: `No answer came. ${AGAIN}` };
  const { message: why } = new Refusal(status, (await answer.json().catch(() => ({}))).error);
  if (taken === false) return { status, taken, wrong: sentence(`The server did not take it: ${why}`) };
  return { status, taken, wrong: `${sentence(`The server says: ${why}`)} ${AGAIN}` };
}
