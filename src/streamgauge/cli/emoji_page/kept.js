// What became of the report that this device keeps, and how many others were sent before it. A device knows what it has
// drawn; whether that has left is remembered here, by the key under which it is sent.

const NAME = "favourite emoji: what left";
const FATES = ["never", "earlier", "refused", "unanswered", "taken"]; // each outdoes those before it

/** What is known after one more attempt. */
export const outdone = (before, now) => FATES[Math.max(FATES.indexOf(before), FATES.indexOf(now))];

export class Kept {
  constructor(storage = globalThis.localStorage) {
    this.storage = storage;
  }

  /** {key, fate} of the newest report, as far as it was sent; `earlier`: reports of the devices before. */
  get told() { return { earlier: 0, key: null, fate: null, ...JSON.parse(this.storage.getItem(NAME) ?? "{}") }; }

  get earlier() { return this.told.earlier; }

  /** What became of the report of a key; null if that was not written down. */
  fateOf(key) {
    const { key: known, fate } = this.told;
    return known === key ? fate : null;
  }

  tell(key, fate) {
    this.#write({ earlier: this.earlier, key, fate });
  }

  /** The report is forgotten; that it was sent is not. */
  forget() {
    this.#write({ earlier: this.earlier + 1 });
  }

  #write(told) { this.storage.setItem(NAME, JSON.stringify(told)); }
}
