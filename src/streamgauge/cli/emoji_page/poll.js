// This device in the poll: a pick is privatised here, by client.js, and only the report is sent.

import { Refusal } from "/page/api.js";
import { byId, el, show } from "/page/dom.js";
import { count } from "/page/numbers.js";
import { Device, message, Repeat } from "./client.js";
import { Kept, outdone } from "./kept.js";
import { showCost, showReport } from "./report.js";
import { named, sign } from "./signs.js";
import { sentence } from "./words.js";

const AGAIN = "The report may have arrived; sending again sends the same bytes.";

export class Poll {
  /** Throws where nothing can be remembered, or read. */
  constructor({ claim, items, crowd, status }) {
    Object.assign(this, { claim, items, crowd, status, kept: new Kept() });
    this.device = new Device(claim, { again: new Repeat(), name: "favourite emoji" });
    this.#remembered();
  }

  /** The signs to pick from, and what was sent before. */
  open() {
    byId("signs").append(...this.items.map(choiceOf));
    byId("signs").addEventListener("change", () => { byId("send").disabled = false; });
    byId("poll").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("forget").addEventListener("click", () => this.forget());
    const { drawn, report } = this.#remembered();
    if (report) showReport({ ...this, item: null, report, fate: this.kept.fateOf(report) });
    else this.#tellNothing();
    this.#tellCost(!drawn ? "never" : report && this.kept.fateOf(report) === "taken" ? "before" : "kept");
  }

  #remembered() {
    const [drawn, report] = [this.device.spent !== "0", this.kept.reportTo(this.claim.fingerprint)];
    return { drawn, report: drawn ? report : null };
  }

  async send() {
    byId("send").setAttribute("aria-busy", "true");
    byId("refused").textContent = await this.#sent(new FormData(byId("poll")).get("emoji"));
    show(byId("refused"), byId("refused").textContent !== "");
    byId("send").removeAttribute("aria-busy");
  }

  /** What went wrong, if anything did. */
  async #sent(item) {
    let report, before;
    try {
      const { drawn } = this.#remembered();
      report = await this.device.report(item);
      before = drawn ? this.kept.fateOf(report) ?? "unanswered" : "never";
      this.kept.tell(this.claim.fingerprint, report, outdone(before, "unanswered"));
    } catch (error) {
      return sentence(`Nothing was sent: ${error.message}`);
    }
    const { fate, wrong } = await sendBytes(message(this.claim, [report]));
    this.kept.tell(this.claim.fingerprint, report, outdone(before, fate));
    this.#tell({ item, report, before, fate });
    return wrong;
  }

  #tell({ item, report, before, fate }) {
    showReport({ ...this, item, report, before, fate: outdone(before, fate) });
    this.#tellCost(before === "taken" ? "before" : "kept");
    if (fate !== "taken") return;
    this.crowd.mark(item);
    const words = { never: "A private report was sent.", taken: "The same report was sent again." };
    this.status.say(words[before] ?? "The report of your first pick was sent.");
  }

  #tellCost(when) {
    showCost(this.claim, when, this.kept.earlier);
    show(byId("forget"), when !== "never");
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
    byId("send").disabled = true;
    show(byId("refused"), false);
    this.#tellCost("never");
    this.#tellNothing();
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
async function sendBytes(body) {
  const headers = { "Content-Type": "application/octet-stream" };
  const answer = await fetch("/api/reports", { method: "POST", headers, body, credentials: "omit" }).catch(() => null);
  if (answer === null) return { fate: "unanswered", wrong: `No answer came. ${AGAIN}` };
  if (answer.ok) return { fate: "taken", wrong: "" };
  const { message: why } = new Refusal(answer.status, (await answer.json().catch(() => ({}))).error);
  if (answer.status < 500) return { fate: "refused", wrong: sentence(`The server did not take it: ${why}`) };
  return { fate: "unanswered", wrong: `${sentence(`The server says: ${why}`)} ${AGAIN}` };
}
