// The groups of a release and their newest values. Each visible group has a button. If there are many groups, the
// largest are shown, by their newest released value, and the user finds the others by name.

import { formatAmount, UNRELIABLE, isUnreliable } from "./cells.js";
import { choice, el, show } from "./dom.js";
import { formatCount, formatInteger, formatRounded } from "./numbers.js";
import { lineDash } from "./palette.js";
import { compareLargest } from "./ranking.js";

const DEFAULT_VISIBLE = 8; // visible by default
const KEPT_VISIBLE = 12; // a group that was among the largest stays until so many are larger: noise moves the last ones
const MAX_VISIBLE = 24; // distinguishable in one chart
const MAX_LISTED = 60;

export class Groups {
  /** onChange(key, visible): the user chose; onOpen(): the user opened the list of names. */
  constructor({ onChange, onOpen = () => null, first = DEFAULT_VISIBLE }) {
    Object.assign(this, { onChange, onOpen, first, known: [], order: [], sort: "largest", isChosen: false, slots: new Map(), hidden: new Set() });
    this.readings = el("div", { class: "readings", role: "group", "aria-label": "Groups: newest values, with 95 % errors" });
    this.summary = el("summary");
    this.search = el("input", { type: "search", placeholder: "Find by name", "aria-label": "Find a group by name", autocomplete: "off", spellcheck: "false", input: () => this.#updateList() });
    this.list = el("ul", { class: "found" });
    this.more = el("p", { class: "hint", role: "status" });
    const sort = choice("Sort", [["largest", "Largest first"], ["name", "A to Z"]], this.sort, (value) => { this.sort = value; this.#updateList(); });
    this.picker = el("details", { class: "picker", hidden: true, toggle: () => { if (this.picker.open) { this.onOpen(); this.#updateList(); } } },
      this.summary, el("div", { class: "row" }, this.search, sort), this.list, this.more);
    this.node = el("div", { class: "groups" }, this.readings, this.picker);
  }

  get many() {
    return this.known.length > DEFAULT_VISIBLE || this.first === 0;
  }

  /** Set the groups, each {key, name, depth, value}. Return the visible ones, each with the index of its colour. */
  setGroups(groups) {
    const changed = groups.length !== this.known.length;
    const isSorted = groups.length > DEFAULT_VISIBLE || groups.some(({ rank }) => rank !== undefined);
    this.known = isSorted ? [...groups].sort(compareLargest) : groups;
    if (!this.isChosen) this.#followLargest();
    const places = new Map(this.known.map(({ key }, place) => [key, place]));
    const shown = [...this.slots.keys()].filter((key) => places.has(key));
    if (shown.length !== this.order.length || shown.some((key) => !this.order.includes(key))) this.order = shown.sort((one, other) => places.get(one) - places.get(other));
    if (changed && this.picker.open) this.#updateList();
    return this.order.map((key) => ({ ...this.known[places.get(key)], index: this.slots.get(key) }));
  }

  /** Show the largest groups, as long as the user has chosen none. */
  #followLargest() {
    const keys = this.known.map(({ key }) => key);
    const kept = new Set(keys.slice(0, KEPT_VISIBLE));
    for (const key of [...this.slots.keys()]) if (!kept.has(key)) this.#hide(key);
    for (const key of keys) {
      if (this.slots.size >= this.first) break;
      if (!this.slots.has(key)) this.slots.set(key, this.#freeSlot());
    }
  }

  isVisible(key) {
    return this.slots.has(key) && !this.hidden.has(key);
  }

  get visible() {
    return this.known.filter(({ key }) => this.isVisible(key));
  }

  /** Show the newest values. Buttons are reused, and moved only if their order changes, so that focus stays. */
  showNewest(lines) {
    const buttons = new Map([...this.readings.children].map((button) => [button.dataset.key, button]));
    const focused = document.activeElement;
    lines.forEach((line, place) => {
      const button = buttons.get(line.key) ?? this.#button(line);
      buttons.delete(line.key);
      if (this.readings.children[place] !== button) this.readings.insertBefore(button, this.readings.children[place] ?? null);
      button.setAttribute("aria-pressed", String(this.isVisible(line.key)));
      setReading(button, line.column);
    });
    for (const button of buttons.values()) button.remove();
    if (this.readings.contains(focused)) focused.focus({ preventScroll: true });
    show(this.picker, this.many);
    this.summary.textContent = `${formatInteger(this.visible.length)} of ${formatCount(this.total ?? this.known.length, "group")} shown`;
  }

  #button({ key, index, name }) {
    return el("button", { type: "button", class: `reading g${(index % 8) + 1} ${lineDash(index)}`, "data-key": key, title: name, click: () => this.#toggle(key) },
      el("span", { class: "name" }, name), el("span", { class: "amount" }), el("span", { class: "few" }));
  }

  #toggle(key) {
    if (this.many) { this.isChosen = true; this.#hide(key); this.summary.focus(); this.#updateList(); }
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
    if (this.sort === "name") found.sort((one, other) => one.name.localeCompare(other.name));
    this.list.replaceChildren(...found.slice(0, MAX_LISTED).map((group) => this.#entry(group)));
    const left = found.length - MAX_LISTED;
    this.more.textContent = this.slots.size >= MAX_VISIBLE ? `${MAX_VISIBLE} groups are shown, the maximum of one chart.`
      : left > 0 ? `… and ${formatInteger(left)} more: type part of a name.` : found.length ? "" : this.known.length ? "No group has this name." : "Loading the names.";
  }

  #entry({ key, name, value, error }) {
    const visible = this.isVisible(key);
    const change = (event) => {
      this.isChosen = true;
      if (event.target.checked) { this.hidden.delete(key); if (!this.slots.has(key)) this.slots.set(key, this.#freeSlot()); } else this.#hide(key);
      this.onChange(key, event.target.checked);
      this.#applyLimit();
    };
    const newest = Number.isFinite(value) && el("span", { class: "newest", "aria-hidden": "true" }, formatRounded(value, error));
    return el("li", {}, el("label", {}, el("input", { type: "checkbox", checked: visible, disabled: !visible && this.slots.size >= MAX_VISIBLE, "aria-label": name, change }), el("span", {}, name), newest));
  }

  #applyLimit() {
    const full = this.slots.size >= MAX_VISIBLE;
    for (const box of this.list.querySelectorAll("input")) box.disabled = full && !box.checked;
  }
}

function setReading(button, column) {
  const i = column.value.length - 1;
  const [amount, few] = [button.querySelector(".amount"), button.querySelector(".few")];
  amount.textContent = i < 0 ? "…" : column.value[i] === null && column.high[i] === null ? "not listed" : formatAmount(column, i);
  few.textContent = i >= 0 && isUnreliable(column, i) ? UNRELIABLE : "";
}
