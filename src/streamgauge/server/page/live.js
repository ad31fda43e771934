// The live stream while the page is open. After a break it continues after the last received id, so no event is lost or
// repeated. The wait between attempts doubles up to eight seconds.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;
const EVENTS = ["release", "reset", "ledger", "status"];

export class Live {
  /** hear: {release, reset, ledger, status, opened, lost}, each a function. */
  constructor(hear) {
    this.hear = hear;
    this.last = "";
    this.wait = FIRST_WAIT;
    this.source = null;
    this.timer = 0;
  }

  start() {
    this.stop();
    const after = this.last ? `?last_event_id=${encodeURIComponent(this.last)}` : "";
    const source = new EventSource(`/api/live${after}`);
    this.source = source;
    source.addEventListener("open", () => {
      this.wait = FIRST_WAIT;
      this.hear.opened();
    });
    source.addEventListener("error", () => this.#again());
    for (const name of EVENTS) source.addEventListener(name, (event) => this.#tell(name, event));
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  /** Forget the last id, which belongs to another history. */
  forget() {
    this.last = "";
  }

  #tell(name, event) {
    if (event.lastEventId) this.last = event.lastEventId;
    this.hear[name](event.data ? JSON.parse(event.data) : null);
  }

  /** Retry. The browser's own retry ends at the first reply that is not a stream. */
  #again() {
    this.stop();
    this.hear.lost();
    this.timer = setTimeout(() => this.start(), this.wait);
    this.wait = Math.min(LONGEST_WAIT, 2 * this.wait);
  }
}
