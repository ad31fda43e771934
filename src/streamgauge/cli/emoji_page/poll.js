// This device in the poll: a pick is privatised here, by client.js, and only the report is sent. It is sent once; while
// no answer has come the same bytes go out again, under the same key, by which the server counts them once.

import { Refusal } from "/page/api.js";
import { byId, el, show } from "/page/dom.js";
import { count } from "/page/numbers.js";
import { deviceOf, message } from "./client.js";
import { Kept, outdone } from "./kept.js";
import { showCost, showReport } from "./report.js";
import { named, sign } from "./signs.js";
import { sentence } from "./words.js";

const AGAIN = "The report may have arrived; sent again within ten minutes, the same bytes count once.";
const SEND = { never: "Send a private report", earlier: "Send a private report", taken: "Sent: nothing more to send" };
const SAID = { never: "A private report was sent.", earlier: "The same report was sent again." };

export class Poll {
  /** Throws where nothing can be remembered, or read. */
  constructor({ collection, column, agreed, items, crowd, status }) {
    this.device = deviceOf(collection, column, { agreed, name: "favourite emoji" });
    Object.assign(this, { claim: this.device.claim, items, crowd, status, kept: new Kept() });
    this.kept.fateOf(this.device.key);
  }

  /** The signs to pick from, and what was sent before. */
  open() {
    byId("signs").append(...this.items.map(choiceOf));
    byId("signs").addEventListener("change", () => this.#offer());
    byId("poll").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("forget").addEventListener("click", () => this.forget());
    this.#tell();
  }

  /** What became of the report to this poll; "earlier" is one that was drawn for a poll before it. */
  #fate() {
    const { left, last, key } = this.device;
    if (left) return last ? "earlier" : "never";
    return this.kept.fateOf(key) ?? "unanswered";
  }

  /** What can be sent: a report for the pick, the same again under its key, or nothing. */
  #offer() {
    const [fate, picked] = [this.#fate(), new FormData(byId("poll")).get("emoji")];
    const again = ["refused", "unanswered"].includes(fate) && this.device.key !== null;
    byId("send").textContent = again ? "Send it again" : SEND[fate] ?? "Nothing more to send";
    byId("send").disabled = !(again || (this.device.left && picked));
  }

  async send() {
    byId("send").setAttribute("aria-busy", "true");
    byId("refused").textContent = await this.#sent(new FormData(byId("poll")).get("emoji"));
    show(byId("refused"), byId("refused").textContent !== "");
    byId("send").removeAttribute("aria-busy");
  }

  /** What went wrong, if anything did. */
  async #sent(item) {
    const before = this.#fate();
    if (before === "taken") return this.#tell({ item, before });
    let report, key;
    try {
      report = this.device.left ? await this.device.report(item) : this.device.last;
      key = this.device.key;
      this.kept.tell(key, outdone(before, "unanswered"));
    } catch (error) {
      this.#tell({ item, before });
      return sentence(`Nothing was sent: ${error.message}`);
    }
    const { fate, wrong } = await sendBytes(message(this.claim, [report]), key);
    this.kept.tell(key, outdone(before, fate));
    this.#tell({ item, before });
    if (fate === "taken") this.#celebrate(item, before);
    return wrong;
  }

  #celebrate(item, before) {
    if (item !== null) this.crowd.mark(item);
    this.status.say(SAID[before] ?? "The report of your first pick was sent.");
  }

  /** All that the page says of this device; `before` is what was known of the report before it was sent just now. */
  #tell({ item = null, before = null } = {}) {
    const [fate, report] = [this.#fate(), this.device.last];
    if (report) showReport({ ...this, item, report, before, fate });
    else this.#tellNothing();
    showCost(this.claim, fate, this.kept.earlier);
    show(byId("forget"), this.device.spent !== "0");
    this.#offer();
    return "";
  }

  #tellNothing() {
    const { earlier } = this.kept;
    if (earlier) tellNone(`As another device, nothing yet. ${count(earlier, "report")} ${earlier === 1 ? "was" : "were"} sent from here before, and cannot be called back.`);
  }

  /** Forgets the report: to the server this is somebody else, and to nobody but the server. */
  forget() {
    this.kept.forget();
    this.device.forget();
    this.crowd.mark(null);
    byId("poll").reset();
    show(byId("refused"), false);
    this.#tell();
    this.status.say("To the server this is another device now.");
    byId("signs").querySelector("input").focus();
  }
}

/** Where nothing can be remembered, or read again: a report would be charged anew each time. */
export function withoutDevice() {
  const why = canRead() ? "What this browser keeps for this page cannot be read" : "This browser keeps nothing for this page";
  byId("poll").replaceChildren(el("p", { class: "none" }, `${why}, so it sends nothing. The crowd is shown all the same.`));
  tellNone("Nothing.");
  return null;
}

function canRead() {
  try {
    localStorage.getItem("");
    return true;
  } catch {
    return false;
  }
}

const choiceOf = (item) => el("label", {}, el("input", { type: "radio", name: "emoji", value: item }), sign(item), named(item));

const tellNone = (words) => byId("sent-body").replaceChildren(el("p", { class: "none" }, words));

/** What became of it; a server that fails may have taken it before. */
async function sendBytes(body, key) {
  const headers = { "Content-Type": "application/octet-stream", "Batch-Key": key };
  const answer = await fetch("/api/reports", { method: "POST", headers, body, credentials: "omit" }).catch(() => null);
  if (answer === null) return { fate: "unanswered", wrong: `No answer came. ${AGAIN}` };
  if (answer.ok) return { fate: "taken", wrong: "" };
  const { message: why } = new Refusal(answer.status, (await answer.json().catch(() => ({}))).error);
  if (answer.status < 500) return { fate: "refused", wrong: sentence(`The server did not take it: ${why}`) };
  return { fate: "unanswered", wrong: `${sentence(`The server says: ${why}`)} ${AGAIN}` };
}
