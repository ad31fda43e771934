// The sent bytes, and their probability for every pick.

import { byId, el, show } from "/page/dom.js";
import { formatCount, parseFraction, formatPercent, formatShort } from "/page/numbers.js";
import { emojiName, emojiPicture } from "./signs.js";

const HEADER_BYTES = 8; // bytes of a message before its reports: the version and the collection

const PENDING_TEXTS = { earlier: "in an earlier poll", rejected: "rejected until now", unanswered: "without a response until now" };

/** Show a view {claim, items, item, report, before, status}. `before` is the status before the report was sent. Bytes of an
 * earlier visit have no item. */
export function showReport(view) {
  const status = el("p", { id: "status" }, el("b", {}, statusText(view)));
  show(status, status.textContent !== "");
  byId("sent-body").replaceChildren(buildPath(view), status, describeReport(view), buildLikelihoods(view));
}

function buildPath({ item, report, before }) {
  const changed = before === "never" ? "" : ", and the report is unchanged";
  const here = item === null ? el("div", {}, el("small", {}, "Your pick is not stored or sent"))
    : el("div", {}, emojiPicture(item), el("small", {}, `${emojiName(item)}: stays here${changed}`));
  const bytes = [...report].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const left = el("div", { class: "left" }, el("span", { class: "bytes", id: "bytes" }, bytes), el("small", {}, `${formatCount(report.length, "byte")}, after ${HEADER_BYTES} that name the poll`));
  return el("div", { class: "path" }, here, el("span", { class: "arrow", "aria-hidden": "true" }, "→"), left);
}

function statusText({ before, status }) {
  if (status === "rejected") return "It was sent, and the server rejected it.";
  if (status === "unanswered") return "The server did not respond: the report may have arrived.";
  if (status === "late") return "The server did not respond, and it is too late to send the report again. It may have arrived.";
  if (status === "earlier") return "Drawn for an earlier poll, not yet sent to this one.";
  if (before === null) return "Sent from this browser before.";
  if (before === "accepted") return "Sent before, so not sent again.";
  return before in PENDING_TEXTS ? `Drawn for your first pick, ${PENDING_TEXTS[before]}.` : "";
}

/** Describe the report. */
function describeReport({ claim, items, report }) {
  const { row, line, negative } = claim.decode(report);
  const question = (row * claim.width + line + 1).toLocaleString("en-GB");
  const all = (claim.hashes * claim.width).toLocaleString("en-GB");
  const each = items.map((item) => claim.likelihood(item, report));
  const [most, least] = [Math.max(...each), Math.min(...each)];
  const likely = each.filter((chance) => chance === most).length;
  const split = likely === items.length
    ? `All ${items.length} emoji give this answer with probability ${formatPercent(most)}`
    : `${likely} of the ${items.length} emoji give this answer with probability ${formatPercent(most)}, the others with ${formatPercent(least)}`;
  return el("p", {}, `A die chose yes-or-no question ${question} of ${all} about your pick. A coin decided whether to lie. The answer is ${negative ? "no" : "yes"}. ${split}. Your pick may be any of them.`);
}

function buildLikelihoods({ claim, items, item, report }) {
  const rows = items.map((each) => {
    const chance = claim.likelihood(each, report);
    const bar = el("span", { class: "chance", "aria-hidden": "true" }, el("i", {}));
    bar.firstChild.style.setProperty("--share", String(chance));
    const head = el("span", {}, emojiPicture(each), el("span", { class: "hidden-text" }, `${emojiName(each)}: `));
    return el("li", { class: each === item && "mine" }, head, bar, el("span", { class: "n" }, formatPercent(chance)));
  });
  return el("ul", { class: "chances", "aria-label": "Probability of this answer for each emoji" }, rows);
}

/** Show the loss of this device, which is charged once, and of earlier devices of this user. */
export function showCost(claim, status, earlier) {
  const epsilon = parseFraction(claim.epsilon);
  const words = {
    never: "It is drawn once, stored here, sent once, and charged once.",
    earlier: "This device reported to an earlier poll. It sends the same bytes to this one for any pick, and is charged once.",
    rejected: "It is stored here. You may send the same bytes again until the server accepts them. Your pick does not change them, and you are charged once.",
    unanswered: "It is stored here. You may send the same bytes again for nine minutes. Your pick does not change them, and you are charged once.",
    late: "The server recognises a repeated report for about ten minutes. Later it might count twice, so it is not sent again. You are charged once.",
    other: "This device reported to a poll with other settings and was charged there. It sends nothing here, and this poll costs it nothing.",
    accepted: "This device has reported: there is nothing more to send, for any pick. You are charged once.",
  };
  const bound = `No pick makes a report more than ${formatShort(Math.exp(epsilon))} times as likely as another pick does (e to the ${formatShort(epsilon)}). `;
  byId("cost").replaceChildren(el("b", {}, costText(epsilon, status, earlier)), bound, words[status]);
}

function costText(epsilon, status, earlier) {
  if (!earlier) return `A report costs you ε ${formatShort(epsilon)}, permanently. `;
  if (status === "never") return `For the server you are another device. You are the same person: another report costs you ε ${formatShort(epsilon)} again. `;
  return `A report costs you ε ${formatShort(epsilon)}, permanently. Together with the reports of your earlier devices: ε ${formatShort(epsilon * (earlier + 1))}. `;
}
