// The poll: a pick is privatised here, by client.js, and only the report is sent.

import { ask, Refusal, Unreachable } from "/page/api.js";
import { byId, el, show } from "/page/dom.js";
import { Live } from "/page/live.js";
import { Status } from "/page/status.js";
import { claimOf, Device, message, Repeat } from "./client.js";
import { Crowd } from "./crowd.js";
import { showCost, showReport } from "./report.js";
import { named, sign } from "./signs.js";

const status = new Status(() => live.start());
const live = new Live({ opened, lost: () => status.set("lost"), release, reset: opened, ledger: () => null, status: ({ state }) => status.set(state) });
let poll = null; // {claim, items, device, crowd} once it is known what is collected

async function opened() {
  try {
    poll ??= begin(await ask("/api/collection"));
    await poll.crowd.load();
    status.note("load", "");
  } catch (error) {
    status.note("load", `${error.message}.`, "bad");
  }
}

function release(event) {
  status.tick(event.tick);
  poll?.crowd.take(event);
}

/** Once it is known what is collected: the signs to pick from, and this device. */
function begin({ columns }) {
  const [[column, { values, settings }]] = Object.entries(columns);
  const claim = claimOf(settings);
  byId("signs").append(...values.map(choiceOf));
  byId("signs").addEventListener("change", () => { byId("send").disabled = false; });
  byId("poll").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  byId("forget").addEventListener("click", forget);
  const device = new Device(claim, { again: new Repeat(), name: "favourite emoji" });
  reported(claim, device.spent === "0" ? "never" : "before");
  return { claim, items: values, device, crowd: new Crowd(values, column) };
}

const choiceOf = (item) => el("label", {}, el("input", { type: "radio", name: "emoji", value: item }), sign(item), named(item));

async function send() {
  const item = new FormData(byId("poll")).get("emoji");
  byId("send").setAttribute("aria-busy", "true");
  try {
    const sent = poll.device.spent === "0" ? "now" : "before";
    const report = await poll.device.report(item);
    await sendBytes(message(poll.claim, [report]));
    told({ item, report, sent });
  } catch (error) {
    byId("refused").textContent = `Nothing was sent: ${error.message}.`;
  }
  show(byId("refused"), byId("refused").textContent !== "");
  byId("send").removeAttribute("aria-busy");
}

async function sendBytes(body) {
  const answer = await fetch("/api/reports", { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body, credentials: "omit" })
    .catch(() => { throw new Unreachable("the server cannot be reached"); });
  if (!answer.ok) throw new Refusal(answer.status, (await answer.json().catch(() => ({}))).error);
}

function told({ item, report, sent }) {
  byId("refused").textContent = "";
  showReport({ claim: poll.claim, items: poll.items, item, report, sent });
  reported(poll.claim, sent);
  poll.crowd.mark(item);
  status.say(sent === "now" ? "A private report was sent." : "The same report was sent again.");
}

function reported(claim, sent) {
  showCost(claim, sent);
  show(byId("forget"), sent !== "never");
}

/** Forgets what this device sent, as if it were somebody else's. */
function forget() {
  poll.device.forget();
  poll.crowd.mark(null);
  byId("poll").reset();
  byId("send").disabled = true;
  reported(poll.claim, "never");
  byId("sent-body").replaceChildren(el("p", { class: "none" }, "Another device: nothing has left it yet."));
  status.say("This is another device now.");
  byId("signs").querySelector("input").focus();
}

live.start();
