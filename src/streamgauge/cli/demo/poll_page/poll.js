// This device in the poll: client.js privatises a pick here, and only the report is sent, once. Without a reply the same
// bytes are sent again under the same key. The server counts them once while it stores that key.

import { Refusal } from "/page/api.js";
import { byId, el, show } from "/page/dom.js";
import { count } from "/page/numbers.js";
import { InvalidSaveError, parseMechanism, buildDevice, message, wasAccepted } from "./client.js";
import { earlier, oneMore } from "./device_count.js";
import { showCost, showReport } from "./report.js";
import { named, sign } from "./signs.js";
import { sentence } from "./words.js";

const AGAIN = "The report may have arrived; sent again within nine minutes, the same bytes are usually counted once.";
const SEND = { never: "Send a private report", earlier: "Send the same report", rejected: "Send it again", unanswered: "Send it again", accepted: "Sent: nothing more to send" };
const SAID = { never: "A private report was sent.", earlier: "The same report was sent again." };
const OTHER = "This device reported to a poll of other settings; it sends nothing here.";

/** Status of the report to this poll. "earlier" is one that was drawn for a poll before it, "other" one for a poll
 * of other settings; "late" has no answer, and might count twice if it were sent again. */
function reportStatus({ spent, remaining, lastReport, status, retrySeconds }) {
  if (spent === "0") return "never";
  if (lastReport === null) return "other";
  if (remaining > 0) return "earlier";
  return status === "unanswered" && retrySeconds === 0 ? "late" : status;
}

/** Return whether there is something to send: a report for a pick, or the same report again. */
const sends = (status, item) => (status === "never" ? item !== null : ["earlier", "rejected", "unanswered"].includes(status));

export class Poll {
  /** changed(): read the collection, and return whether it is another poll. */
  constructor({ crowd, status, changed }) {
    Object.assign(this, { crowd, status, changed, device: null, items: [], known: null, busy: false, turn: 0, timer: 0 });
    this.others = new BroadcastChannel("favourite emoji"); // other pages of this browser
    this.others.addEventListener("message", () => this.known && this.#look());
    byId("signs").addEventListener("change", () => (this.busy ? this.#offer() : this.#look()));
    byId("poll").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("forget").addEventListener("click", () => this.forget());
  }

  /** Show the choices and the last report. */
  async open(collection, column, items) {
    this.items = items;
    show(byId("refused"), false);
    byId("signs").replaceChildren(byId("signs").querySelector("legend"), ...items.map(choiceOf));
    try {
      const { epsilon: maxLoss } = parseMechanism(collection.columns[column].settings); // shown before the first report
      this.device = buildDevice(collection, column, { maxLoss, name: "favourite emoji" });
    } catch (error) {
      this.#without(`This poll is not one to report to (${error.message})`);
      return;
    }
    await this.#tell();
  }

  /** Send what the button says, or nothing if the status has changed. */
  async send() {
    await this.#alone(async () => {
      const item = picked();
      const { before, wrong } = await this.#sent(this.device, this.known.status, item);
      await this.#tell({ item, before });
      byId("refused").textContent = wrong;
      show(byId("refused"), wrong !== "");
    });
  }

  /** Send a report; return its earlier status, and the problem, if there is one. */
  async #sent(device, shown, item) {
    let before = shown, due = null;
    try {
      before = reportStatus(await device.status());
      if (before === shown && sends(before, item)) due = await device.prepareReport(item);
    } catch (error) {
      return { before, wrong: sentence(`Nothing was sent: ${error.message}`) };
    }
    if (due === null) return { before, wrong: "" };
    const { code, accepted, wrong } = await sendBytes(message(device.claim, [due.report]), due.key);
    try {
      await device.acknowledge(due.key, accepted);
    } catch (error) {
      return { before, wrong: sentence(`An answer came, which this browser cannot remember: ${error.message}`) };
    }
    if (accepted) this.#celebrate(item, before);
    const other = code === 400 && (await this.changed().catch(() => false));
    return { before, wrong: other ? "The poll changed before the report arrived, and did not take it." : wrong };
  }

  #celebrate(item, before) {
    if (item !== null) this.crowd.mark(item);
    this.status.say(SAID[before] ?? "The report of your first pick was sent.");
  }

  /** Forget the report: to the server, and only to the server, this becomes another device. */
  async forget() {
    await this.#alone(async () => {
      if ((await this.device.status()).spent !== "0") await oneMore();
      await this.device.wipe();
      this.crowd.mark(null);
      byId("poll").reset();
      show(byId("refused"), false);
      await this.#tell();
      this.status.say("To the server this is another device now.");
    });
    byId("signs").querySelector("input")?.focus();
  }

  /** Run one action at a time. */
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

  /** Look for a report that another page of this browser sent. */
  async #look() {
    const before = this.known?.status;
    const told = await this.device.status().catch(() => null);
    if (told === null || reportStatus(told) !== before) await this.#tell();
    this.#offer();
  }

  /** Show the state of this device; `before` is the status before the report was sent now. */
  async #tell({ item = null, before = null } = {}) {
    const turn = (this.turn += 1);
    try {
      const told = { ...(await this.device.status()), earlier: await earlier() };
      if (turn !== this.turn) return;
      this.known = { ...told, status: reportStatus(told) };
    } catch (error) {
      if (turn === this.turn) this.#without(whyOf(error));
      return;
    }
    this.#show(item, before);
    clearTimeout(this.timer);
    if (this.known.status === "unanswered") this.timer = setTimeout(() => this.#look(), 1000 * this.known.retrySeconds + 1000);
  }

  #show(item, before) {
    const [{ lastReport: report, status, spent, earlier: others }, { claim }] = [this.known, this.device];
    if (report !== null) showReport({ claim, items: this.items, item, report, before, status });
    else tellNone(status === "other" ? OTHER : nothing(others));
    showCost(claim, status, others);
    for (const id of ["signs", "acts"]) show(byId(id), true);
    show(byId("without"), false);
    show(byId("forget"), spent !== "0");
    this.#offer();
  }

  /** Update the button: a report for the pick, the same report under its key, or nothing. */
  #offer() {
    if (this.known === null) return;
    const { status } = this.known;
    byId("send").textContent = SEND[status] ?? "Nothing more to send";
    byId("send").disabled = this.busy || !sends(status, picked());
    byId("forget").disabled = this.busy;
  }

  /** Show the crowd without a device. */
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

/** Reason for a page without a device: without storage, each report would be charged again. */
const whyOf = (error) => (error instanceof InvalidSaveError ? "What this browser keeps for this page cannot be read" : "This browser keeps nothing for this page");

const picked = () => new FormData(byId("poll")).get("emoji");

const choiceOf = (item) => el("label", {}, el("input", { type: "radio", name: "emoji", value: item }), sign(item), named(item));

const tellNone = (words) => byId("sent-body").replaceChildren(el("p", { class: "none" }, words));

const nothing = (others) => (others ? `As another device, nothing yet. ${count(others, "report")} ${others === 1 ? "was" : "were"} sent from here before, and cannot be called back.`
  : "Nothing yet. A report will be shown here, byte for byte.");

/** Send bytes; return the status code, whether the report was accepted, and the problem, if any. */
async function sendBytes(body, key) {
  const headers = { "Content-Type": "application/octet-stream", "Batch-Key": key };
  const answer = await fetch("/api/reports", { method: "POST", headers, body, credentials: "omit" }).catch(() => null);
  const [accepted, code] = [await wasAccepted(answer), answer?.status];
  if (accepted) return { code, accepted, wrong: "" };
  if (answer === null) return { code, accepted, wrong: `No answer came. ${AGAIN}` };
  const { message: why } = new Refusal(code, (await answer.json().catch(() => ({}))).error);
  if (accepted === false) return { code, accepted, wrong: sentence(`The server did not take it: ${why}`) };
  return { code, accepted, wrong: `${sentence(`The server says: ${why}`)} ${AGAIN}` };
}
