// The groups of a release and their newest values. Few groups have a button each. Of many groups, the visible ones have
// a button, and the others are found by name.

import { amountAt, FEW, isFew } from "./cells.js";
import { el, show } from "./dom.js";
import { count, whole } from "./numbers.js";
import { dashOf } from "./palette.js";

const FIRST = 8; // visible by default
const MOST = 24; // distinguishable in one chart
const LISTED = 60;

export class Groups {
  /** changed(key, shown): a choice of the user; opened(): the list of names was opened. */
  constructor({ changed, opened = () => null, first = FIRST }) {
    Object.assign(this, { changed, opened, first, known: [], seen: new Set(), slots: new Map(), hidden: new Set() });
    this.readings = el("div", { class: "readings", role: "group", "aria-label": "Groups: newest values, with 95 % errors" });
    this.summary = el("summary");
    this.search = el("input", { type: "search", placeholder: "Find by name", "aria-label": "Find a group by name", autocomplete: "off", spellcheck: "false", input: () => this.#list() });
    this.list = el("ul", { class: "found" });
    this.more = el("p", { class: "hint", role: "status" });
    this.picker = el("details", { class: "picker", hidden: true, toggle: () => { if (this.picker.open) { this.opened(); this.#list(); } } },
      this.summary, this.search, this.list, this.more);
    this.node = el("div", { class: "groups" }, this.readings, this.picker);
  }

  get many() {
    return this.known.length > FIRST || this.first === 0;
  }

  /** Set the groups as {key, name}; return the visible ones, each with a slot of the palette. */
  take(groups) {
    const more = groups.length > this.known.length;
    for (const { key } of groups.filter((group) => !this.seen.has(group.key))) {
      if (this.seen.size < this.first) this.slots.set(key, this.#free());
      this.seen.add(key);
    }
    this.known = groups;
    if (more && this.picker.open) this.#list();
    return groups.filter(({ key }) => this.slots.has(key)).map((group) => ({ ...group, index: this.slots.get(group.key) }));
  }

  shows(key) {
    return this.slots.has(key) && !this.hidden.has(key);
  }

  get shown() {
    return this.known.filter(({ key }) => this.shows(key));
  }

  /** Show the newest values. Buttons are built once, so that focus stays. */
  read(lines) {
    const buttons = new Map([...this.readings.children].map((button) => [button.dataset.key, button]));
    for (const line of lines) {
      const button = buttons.get(line.key) ?? this.readings.appendChild(this.#button(line));
      buttons.delete(line.key);
      button.setAttribute("aria-pressed", String(this.shows(line.key)));
      newest(button, line.column);
    }
    for (const button of buttons.values()) button.remove();
    show(this.picker, this.many);
    this.summary.textContent = `${whole(this.shown.length)} of ${count(this.total ?? this.known.length, "group")} shown`;
  }

  #button({ key, index, name }) {
    return el("button", { type: "button", class: `reading g${(index % 8) + 1} ${dashOf(index)}`, "data-key": key, title: name, click: () => this.#press(key) },
      el("span", { class: "name" }, name), el("span", { class: "amount" }), el("span", { class: "few" }));
  }

  #press(key) {
    if (this.many) { this.#drop(key); this.summary.focus(); this.#list(); }
    else if (!this.hidden.delete(key)) this.hidden.add(key);
    this.changed(key, this.shows(key));
  }

  #drop(key) {
    this.slots.delete(key);
    this.hidden.delete(key);
  }

  #free() {
    const taken = new Set(this.slots.values());
    return [...taken, taken.size].findIndex((_, slot) => !taken.has(slot));
  }

  #list() {
    const words = this.search.value.trim().toLowerCase();
    const found = this.known.filter(({ name }) => name.toLowerCase().includes(words));
    this.list.replaceChildren(...found.slice(0, LISTED).map((group) => this.#entry(group)));
    const left = found.length - LISTED;
    this.more.textContent = this.slots.size >= MOST ? `${MOST} are shown, which is the most that can be distinguished.`
      : left > 0 ? `… and ${whole(left)} more: write part of a name.` : found.length ? "" : this.known.length ? "No group has this name." : "Reading the names.";
  }

  #entry({ key, name }) {
    const chosen = this.shows(key);
    const choose = (event) => {
      if (event.target.checked) { this.hidden.delete(key); if (!this.slots.has(key)) this.slots.set(key, this.#free()); } else this.#drop(key);
      this.changed(key, event.target.checked);
      this.#limit();
    };
    return el("li", {}, el("label", {}, el("input", { type: "checkbox", checked: chosen, disabled: !chosen && this.slots.size >= MOST, change: choose }), name));
  }

  #limit() {
    const full = this.slots.size >= MOST;
    for (const box of this.list.querySelectorAll("input")) box.disabled = full && !box.checked;
  }
}

function newest(button, column) {
  const i = column.value.length - 1;
  const [amount, few] = [button.querySelector(".amount"), button.querySelector(".few")];
  amount.textContent = i < 0 ? "…" : amountAt(column, i);
  few.textContent = i >= 0 && isFew(column, i) ? FEW : "";
}
