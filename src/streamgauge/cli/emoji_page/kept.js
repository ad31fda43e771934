// What became of the report that this device keeps, and how many others were sent before it. A device knows what it has
// drawn; whether that has left is remembered here.

const NAME = "favourite emoji: what left";
const FATES = ["never", "refused", "unanswered", "taken"]; // each outdoes those before it

/** What is known after one more attempt. */
export const outdone = (before, now) => FATES[Math.max(FATES.indexOf(before), FATES.indexOf(now))];

export class Kept {
  constructor(storage = globalThis.localStorage) {
    this.storage = storage;
  }

  /** {collection, report, fate} of the newest report, as far as it was sent; `earlier`: reports of the devices before. */
  get told() { return { earlier: 0, ...JSON.parse(this.storage.getItem(NAME) ?? "{}") }; }

  get earlier() { return this.told.earlier; }

  /** The bytes that were sent to a collection; null if there are none. */
  reportTo(collection) {
    const { report, collection: to } = this.told;
    return report && to === collection ? Uint8Array.from(report) : null;
  }

  /** What became of these bytes; null if that was not written down. */
  fateOf(report) {
    const { report: known = [], fate } = this.told;
    return known.join() === report.join() ? fate : null;
  }

  tell(collection, report, fate) {
    this.#write({ earlier: this.earlier, collection, report: [...report], fate });
  }

  /** The report is forgotten; that it was sent is not. */
  forget() {
    this.#write({ earlier: this.earlier + 1 });
  }

  #write(told) { this.storage.setItem(NAME, JSON.stringify(told)); }
}
