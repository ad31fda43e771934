// What left the device, byte for byte, and how likely it would have been for every other pick.

import { byId, el } from "/page/dom.js";
import { count, fraction, percent, short } from "/page/numbers.js";
import { named, sign } from "./signs.js";

const NAMING = 8; // bytes of a message before its reports: a version, and which collection it is for

/** {claim, items, item, report, sent}: what the device sent when the item was picked, now or before. */
export function showReport(told) {
  byId("sent-body").replaceChildren(road(told), sentence(told), chances(told));
}

function road({ item, report, sent }) {
  const here = el("div", {}, sign(item), el("small", {}, `${named(item)}: stays here${sent === "before" ? ", and changed nothing" : ""}`));
  const bytes = [...report].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const left = el("div", { class: "left" }, el("span", { class: "bytes", id: "bytes" }, bytes), el("small", {}, `${count(report.length, "byte")}, behind ${NAMING} that name the poll`));
  return el("div", { class: "road" }, here, el("span", { class: "arrow", "aria-hidden": "true" }, "→"), left);
}

/** In words, with the numbers of this report. */
function sentence({ claim, items, report }) {
  const { row, line, negative } = claim.told(report);
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

/** What a device has lost, or would: once, whatever it sends. */
export function showCost(claim, sent) {
  const epsilon = fraction(claim.epsilon);
  const words = {
    never: "It is drawn once, kept here, and sent again whenever you send, whatever you pick then: charged once.",
    now: "It is kept here, and sent again whenever you send, whatever you pick then: charged once.",
    before: "This device has reported before: the same bytes go out again, whatever you pick. Charged once.",
  };
  const bound = `No pick makes a report more than ${short(Math.exp(epsilon))} times as likely as another pick does (e to the ${short(epsilon)}). `;
  byId("cost").replaceChildren(el("b", {}, `A report costs you ε ${short(epsilon)}, for good. `), bound, words[sent]);
}
