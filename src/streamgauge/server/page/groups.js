// The groups of a release and their newest values. Each visible group has a button. If there are many groups, the user
// finds the others by name.

import { formatAmount, UNRELIABLE, isUnreliable } from "./cells.js";
import { el, show } from "./dom.js";
import { formatCount, formatInteger } from "./numbers.js";
import { lineDash } from "./palette.js";

const DEFAULT_VISIBLE = 8; // visible by default
const MAX_VISIBLE = 24; // distinguishable in one chart
const MAX_LISTED = 60;

export class Groups {
  /** onChange(key, visible): the user chose; onOpen(): the user opened the list of names. */
  constructor({ onChange, onOpen = () => null, first = DEFAULT_VISIBLE }) {
    Object.assign(this, { onChange, onOpen, first, known: [], received: new Set(), slots: new Map(), hidden: new Set() });
    this.readings = el("div", { class: "readings", role: "group", "aria-label": "Groups: newest values, with 95 % errors" });
    this.summary = el("summary");
    this.search = el("input", { type: "search", placeholder: "Find by name", "aria-label": "Find a group by name", autocomplete: "off", spellcheck: "false", input: () => this.#updateList() });
    this.list = el("ul", { class: "found" });
    this.more = el("p", { class: "hint", role: "status" });
    this.picker = el("details", { class: "picker", hidden: true, toggle: () => { if (this.picker.open) { this.onOpen(); this.#updateList(); } } },
      this.summary, this.search, this.list, this.more);
    this.node = el("div", { class: "groups" }, this.readings, this.picker);
  }

  get many() {
    return this.known.length > DEFAULT_VISIBLE || this.first === 0;
  }

  /** Set the groups, each {key, name}. Return the visible ones, each with the index of its colour. */
  setGroups(groups) {
    const more = groups.length > this.known.length;
    for (const { key } of groups.filter((group) => !this.received.has(group.key))) {
      if (this.received.size < this.first) this.slots.set(key, this.#freeSlot());
      this.received.add(key);
    }
    this.known = groups;
    if (more && this.picker.open) this.#updateList();
    return groups.filter(({ key }) => this.slots.has(key)).map((group) => ({ ...group, index: this.slots.get(group.key) }));
  }

  isVisible(key) {
    return this.slots.has(key) && !this.hidden.has(key);
  }

  get visible() {
    return this.known.filter(({ key }) => this.isVisible(key));
  }

  /** Show the newest values. Buttons are reused, so that focus stays. */
  showNewest(lines) {
    const buttons = new Map([...this.readings.children].map((button) => [button.dataset.key, button]));
    for (const line of lines) {
      const button = buttons.get(line.key) ?? this.readings.appendChild(this.#button(line));
      buttons.delete(line.key);
      button.setAttribute("aria-pressed", String(this.isVisible(line.key)));
      setReading(button, line.column);
    }
    for (const button of buttons.values()) button.remove();
    show(this.picker, this.many);
    this.summary.textContent = `${formatInteger(this.visible.length)} of ${formatCount(this.total ?? this.known.length, "group")} shown`;
  }

  #button({ key, index, name }) {
    return el("button", { type: "button", class: `reading g${(index % 8) + 1} ${lineDash(index)}`, "data-key": key, title: name, click: () => this.#toggle(key) },
      el("span", { class: "name" }, name), el("span", { class: "amount" }), el("span", { class: "few" }));
  }

  #toggle(key) {
    if (this.many) { this.#hide(key); this.summary.focus(); this.#updateList(); }
    else if (!this.hidden.delete(key)) this.hidden.add(key);
    this.onChange(key, this.isVisible(key));
  }

  #hide(key) {
    this.slots.delete(key);
    this.hidden.delete(key);
  }

  #freeSlot() {
    const used = new Set(this.slots.values());
    return [...used, used.size].findIndex((_, slot) => !used.has(slot));
  }

  #updateList() {
    const text = this.search.value.trim().toLowerCase();
    const found = this.known.filter(({ name }) => name.toLowerCase().includes(text));
    this.list.replaceChildren(...found.slice(0, MAX_LISTED).map((group) => this.#entry(group)));
    const left = found.length - MAX_LISTED;
    this.more.textContent = this.slots.size >= MAX_VISIBLE ? `${MAX_VISIBLE} groups are shown, the maximum of one chart.`
      : left > 0 ? `… and ${formatInteger(left)} more: type part of a name.` : found.length ? "" : this.known.length ? "No group has this name." : "Loading the names.";
  }

  #entry({ key, name }) {
    const visible = this.isVisible(key);
    const change = (event) => {
      if (event.target.checked) { this.hidden.delete(key); if (!this.slots.has(key)) this.slots.set(key, this.#freeSlot()); } else this.#hide(key);
      this.onChange(key, event.target.checked);
      this.#applyLimit();
    };
    return el("li", {}, el("label", {}, el("input", { type: "checkbox", checked: visible, disabled: !visible && this.slots.size >= MAX_VISIBLE, change }), name));
  }

  #applyLimit() {
    const full = this.slots.size >= MAX_VISIBLE;
    for (const box of this.list.querySelectorAll("input")) box.disabled = full && !box.checked;
  }
}

function setReading(button, column) {
  const i = column.value.length - 1;
  const [amount, few] = [button.querySelector(".amount"), button.querySelector(".few")];
  amount.textContent = i < 0 ? "…" : formatAmount(column, i);
  few.textContent = i >= 0 && isUnreliable(column, i) ? UNRELIABLE : "";
}
