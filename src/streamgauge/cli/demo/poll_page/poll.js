// This device in the poll. client.js privatises a pick here, and only the report is sent, once. Without a response the page sends
// the same bytes again under the same key. The server counts them once while it stores that key.

import { Refusal } from "/page/api.js";
import { byId, el, show } from "/page/dom.js";
import { formatCount } from "/page/numbers.js";
import { InvalidSaveError, parseMechanism, buildDevice, message, wasAccepted } from "./client.js";
import { loadCount, increaseCount } from "./device_count.js";
import { showCost, showReport } from "./report.js";
import { emojiName, emojiPicture } from "./signs.js";
import { toSentence } from "./words.js";

const RESEND_NOTE = "The report may have arrived. If you send the same bytes again in less than nine minutes, they usually count once.";
const BUTTON_TEXTS = { never: "Send a private report", earlier: "Send the same report", rejected: "Send it again", unanswered: "Send it again", accepted: "Sent: nothing more to send" };
const ANNOUNCEMENTS = { never: "The private report was sent.", earlier: "The same report was sent again." };
const OTHER_POLL = "This device reported to a poll with other settings, so it sends nothing here.";

/** Return the status of the report to this poll. "earlier": drawn for an earlier poll. "other": drawn for a poll with
 * other settings. "late": without a response, and it might count twice if it were sent again. */
function reportStatus({ spent, remaining, lastReport, status, retrySeconds }) {
  if (spent === "0") return "never";
  if (lastReport === null) return "other";
  if (remaining > 0) return "earlier";
  return status === "unanswered" && retrySeconds === 0 ? "late" : status;
}

/** Return whether a report can be sent: a new one for a pick, or the same one again. */
const canSend = (status, item) => (status === "never" ? item !== null : ["earlier", "rejected", "unanswered"].includes(status));

export class Poll {
  /** onStale(): load the collection, and return whether it is another poll. */
  constructor({ crowd, status, onStale }) {
    Object.assign(this, { crowd, status, onStale, device: null, items: [], state: null, busy: false, version: 0, timer: 0 });
    this.channel = new BroadcastChannel("favourite emoji"); // other pages of this browser
    this.channel.addEventListener("message", () => this.state && this.#refresh());
    byId("signs").addEventListener("change", () => (this.busy ? this.#updateButton() : this.#refresh()));
    byId("poll").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("forget").addEventListener("click", () => this.forget());
  }

  /** Show the choices and the last report. */
  async open(collection, column, items) {
    this.items = items;
    show(byId("refused"), false);
    byId("signs").replaceChildren(byId("signs").querySelector("legend"), ...items.map(buildChoice));
    try {
      const { epsilon: maxLoss } = parseMechanism(collection.columns[column].settings); // shown before the first report
      this.device = buildDevice(collection, column, { maxLoss, name: "favourite emoji" });
    } catch (error) {
      this.#showNoDevice(`This device cannot take part in this poll (${error.message})`);
      return;
    }
    await this.#showState();
  }

  /** Send the report that the button names, or nothing if the status has changed. */
  async send() {
    await this.#runExclusively(async () => {
      const item = readPick();
      const { before, problem } = await this.#sendReport(this.device, this.state.status, item);
      await this.#showState({ item, before });
      byId("refused").textContent = problem;
      show(byId("refused"), problem !== "");
    });
  }

  /** Send a report. Return its earlier status, and the problem or an empty text. */
  async #sendReport(device, shown, item) {
    let before = shown, pending = null;
    try {
      before = reportStatus(await device.status());
      if (before === shown && canSend(before, item)) pending = await device.prepareReport(item);
    } catch (error) {
      return { before, problem: toSentence(`Nothing was sent: ${error.message}`) };
    }
    if (pending === null) return { before, problem: "" };
    const { code, accepted, problem } = await sendBytes(message(device.claim, [pending.report]), pending.key);
    try {
      await device.acknowledge(pending.key, accepted);
    } catch (error) {
      return { before, problem: toSentence(`The server responded, but this browser cannot store the response: ${error.message}`) };
    }
    if (accepted) this.#announce(item, before);
    const other = code === 400 && (await this.onStale().catch(() => false));
    return { before, problem: other ? "The poll changed before the report arrived, so the report was rejected." : problem };
  }

  #announce(item, before) {
    if (item !== null) this.crowd.mark(item);
    this.status.say(ANNOUNCEMENTS[before] ?? "The report of your first pick was sent.");
  }

  /** Delete the report. For the server, and only for the server, this becomes another device. */
  async forget() {
    await this.#runExclusively(async () => {
      if ((await this.device.status()).spent !== "0") await increaseCount();
      await this.device.wipe();
      this.crowd.mark(null);
      byId("poll").reset();
      show(byId("refused"), false);
      await this.#showState();
      this.status.say("For the server this is another device now.");
    });
    byId("signs").querySelector("input")?.focus();
  }

  /** Run one action at a time. */
  async #runExclusively(action) {
    if (this.busy || this.state === null) return;
    this.busy = true;
    byId("send").setAttribute("aria-busy", "true");
    this.#updateButton();
    await action().catch((error) => this.#showNoDevice(storageProblem(error)));
    this.channel.postMessage(null);
    this.busy = false;
    byId("send").removeAttribute("aria-busy");
    this.#updateButton();
  }

  /** Read the status again. Another page of this browser may have sent a report. */
  async #refresh() {
    const before = this.state?.status;
    const result = await this.device.status().catch(() => null);
    if (result === null || reportStatus(result) !== before) await this.#showState();
    this.#updateButton();
  }

  /** Show the state of this device. `before` is the status before the report was sent. */
  async #showState({ item = null, before = null } = {}) {
    const version = (this.version += 1);
    try {
      const result = { ...(await this.device.status()), earlier: await loadCount() };
      if (version !== this.version) return;
      this.state = { ...result, status: reportStatus(result) };
    } catch (error) {
      if (version === this.version) this.#showNoDevice(storageProblem(error));
      return;
    }
    this.#show(item, before);
    clearTimeout(this.timer);
    if (this.state.status === "unanswered") this.timer = setTimeout(() => this.#refresh(), 1000 * this.state.retrySeconds + 1000);
  }

  #show(item, before) {
    const [{ lastReport: report, status, spent, earlier: others }, { claim }] = [this.state, this.device];
    if (report !== null) showReport({ claim, items: this.items, item, report, before, status });
    else showNothing(status === "other" ? OTHER_POLL : nothingText(others));
    showCost(claim, status, others);
    for (const id of ["signs", "acts"]) show(byId(id), true);
    show(byId("without"), false);
    show(byId("forget"), spent !== "0");
    this.#updateButton();
  }

  /** Update the buttons to the state and the pick. */
  #updateButton() {
    if (this.state === null) return;
    const { status } = this.state;
    byId("send").textContent = BUTTON_TEXTS[status] ?? "Nothing more to send";
    byId("send").disabled = this.busy || !canSend(status, readPick());
    byId("forget").disabled = this.busy;
  }

  /** Show the crowd without a device. */
  #showNoDevice(reason) {
    this.state = null;
    this.version += 1;
    for (const id of ["signs", "acts", "refused"]) show(byId(id), false);
    byId("signs").replaceChildren(byId("signs").querySelector("legend"));
    byId("without").textContent = `${reason}, so it sends nothing. You can still see the crowd.`;
    show(byId("without"), true);
    byId("cost").replaceChildren();
    showNothing("Nothing.");
  }
}

/** Return the reason for a page without a device. Without storage, each report would be charged again. */
const storageProblem = (error) => (error instanceof InvalidSaveError ? "This browser cannot read its stored data of this page" : "This browser does not store data for this page");

const readPick = () => new FormData(byId("poll")).get("emoji");

const buildChoice = (item) => el("label", {}, el("input", { type: "radio", name: "emoji", value: item }), emojiPicture(item), emojiName(item));

const showNothing = (words) => byId("sent-body").replaceChildren(el("p", { class: "none" }, words));

const nothingText = (others) => (others ? `As another device, nothing yet. ${formatCount(others, "report")} ${others === 1 ? "was" : "were"} sent from here before and cannot be withdrawn.`
  : "Nothing yet. A report will be shown here, byte for byte.");

/** Send bytes. Return the status code, whether the report was accepted, and the problem or an empty text. */
async function sendBytes(body, key) {
  const headers = { "Content-Type": "application/octet-stream", "Batch-Key": key };
  const response = await fetch("/api/reports", { method: "POST", headers, body, credentials: "omit" }).catch(() => null);
  const [accepted, code] = [await wasAccepted(response), response?.status];
  if (accepted) return { code, accepted, problem: "" };
  if (response === null) return { code, accepted, problem: `The server did not respond. ${RESEND_NOTE}` };
  const { message: reason } = new Refusal(code, (await response.json().catch(() => ({}))).error);
  if (accepted === false) return { code, accepted, problem: toSentence(`The server rejected the report: ${reason}`) };
  return { code, accepted, problem: `${toSentence(`The server responded: ${reason}`)} ${RESEND_NOTE}` };
}
