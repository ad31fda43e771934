// The sent bytes, and their likelihood for every other pick.

import { byId, el, show } from "/page/dom.js";
import { count, fraction, percent, short } from "/page/numbers.js";
import { named, sign } from "./signs.js";

const NAMING = 8; // bytes of a message before its reports: the version and the collection

const UNTIL_NOW = { earlier: "in an earlier poll", rejected: "not taken until now", unanswered: "not answered until now" };

/** {claim, items, item, report, before, status}: the sent bytes, their status, and the status before they were
 * sent now. Bytes of an earlier visit have no item. */
export function showReport(told) {
  const status = el("p", { id: "status" }, el("b", {}, statusText(told)));
  show(status, status.textContent !== "");
  byId("sent-body").replaceChildren(road(told), status, sentence(told), chances(told));
}

function road({ item, report, before }) {
  const changed = before === "never" ? "" : ", and changed nothing";
  const here = item === null ? el("div", {}, el("small", {}, "Your pick stays here, and is not kept"))
    : el("div", {}, sign(item), el("small", {}, `${named(item)}: stays here${changed}`));
  const bytes = [...report].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const left = el("div", { class: "left" }, el("span", { class: "bytes", id: "bytes" }, bytes), el("small", {}, `${count(report.length, "byte")}, behind ${NAMING} that name the poll`));
  return el("div", { class: "road" }, here, el("span", { class: "arrow", "aria-hidden": "true" }, "→"), left);
}

function statusText({ before, status }) {
  if (status === "rejected") return "It left, and the server did not take it.";
  if (status === "unanswered") return "No answer came: it may have arrived, or not.";
  if (status === "late") return "No answer came, and it is too late to send it again: it may have arrived, or not.";
  if (status === "earlier") return "Drawn for an earlier poll, and not sent to this one yet.";
  if (before === null) return "Sent from this browser before.";
  if (before === "accepted") return "Sent before, and not again.";
  return before in UNTIL_NOW ? `Drawn for your first pick, ${UNTIL_NOW[before]}.` : "";
}

/** The report in words. */
function sentence({ claim, items, report }) {
  const { row, line, negative } = claim.decode(report);
  const question = (row * claim.width + line + 1).toLocaleString("en-GB");
  const all = (claim.hashes * claim.width).toLocaleString("en-GB");
  const each = items.map((item) => claim.likelihood(item, report));
  const [most, least] = [Math.max(...each), Math.min(...each)];
  const likely = each.filter((chance) => chance === most).length;
  const split = likely === items.length
    ? `All ${items.length} emoji give this answer with chance ${percent(most)}`
    : `${likely} of the ${items.length} emoji give this answer with chance ${percent(most)}, the others with ${percent(least)}`;
  return el("p", {}, `Dice chose yes-or-no question ${question} of ${all} about it; a coin decided whether to lie; the answer is ${negative ? "no" : "yes"}. ${split}: yours may be any of them.`);
}

function chances({ claim, items, item, report }) {
  const rows = items.map((each) => {
    const chance = claim.likelihood(each, report);
    const bar = el("span", { class: "chance", "aria-hidden": "true" }, el("i", {}));
    bar.firstChild.style.setProperty("--share", String(chance));
    const head = el("span", {}, sign(each), el("span", { class: "hidden-text" }, `${named(each)}: `));
    return el("li", { class: each === item && "mine" }, head, bar, el("span", { class: "n" }, percent(chance)));
  });
  return el("ul", { class: "chances", "aria-label": "Chance of this answer for each emoji" }, rows);
}

/** Loss of this device, which is charged once, and of earlier devices of this user. */
export function showCost(claim, when, earlier) {
  const epsilon = fraction(claim.epsilon);
  const words = {
    never: "It is drawn once, kept here, and sent once: charged once.",
    earlier: "This device reported to an earlier poll: the same bytes go out to this one, whatever you pick. Charged once.",
    rejected: "It is kept here. Until the server has taken it the same bytes may be sent again, whatever you pick then: charged once.",
    unanswered: "It is kept here. For nine minutes the same bytes may be sent again, whatever you pick then: charged once.",
    late: "The server forgets after some ten minutes which reports it has had: sent again, this one might count twice, so it is not. Charged once.",
    other: "This device reported to a poll of other settings, and was charged there: it sends nothing here, and this poll costs it nothing.",
    accepted: "This device has reported: there is nothing more to send, whatever you pick. Charged once.",
  };
  const bound = `No pick makes a report more than ${short(Math.exp(epsilon))} times as likely as another pick does (e to the ${short(epsilon)}). `;
  byId("cost").replaceChildren(el("b", {}, price(epsilon, when, earlier)), bound, words[when]);
}

function price(epsilon, when, earlier) {
  if (!earlier) return `A report costs you ε ${short(epsilon)}, for good. `;
  if (when === "never") return `To the server you are another device. You are not: another report costs you ε ${short(epsilon)} again. `;
  return `A report costs you ε ${short(epsilon)}, for good: with those you sent as other devices, ε ${short(epsilon * (earlier + 1))}. `;
}
