// The live event stream. After an interruption it resumes after the last received id, so that no event is lost or
// repeated. The wait between attempts doubles, up to eight seconds.

const MIN_WAIT_MS = 500;
const MAX_WAIT_MS = 8000;
const EVENTS = ["release", "reset", "ledger", "status"];

export class Live {
  /** callbacks: functions {release, reset, ledger, status, opened, lost}. */
  constructor(callbacks) {
    this.callbacks = callbacks;
    this.last = "";
    this.wait = MIN_WAIT_MS;
    this.source = null;
    this.timer = 0;
  }

  start() {
    this.stop();
    const after = this.last ? `?last_event_id=${encodeURIComponent(this.last)}` : "";
    const source = new EventSource(`/api/live${after}`);
    this.source = source;
    source.addEventListener("open", () => {
      this.wait = MIN_WAIT_MS;
      this.callbacks.opened();
    });
    source.addEventListener("error", () => this.#retry());
    for (const name of EVENTS) source.addEventListener(name, (event) => this.#dispatch(name, event));
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  /** Clear the last id, which belongs to another history. */
  clear() {
    this.last = "";
  }

  #dispatch(name, event) {
    if (event.lastEventId) this.last = event.lastEventId;
    this.callbacks[name](event.data ? JSON.parse(event.data) : null);
  }

  /** Retry. The browser alone stops at the first response that is not a stream. */
  #retry() {
    this.stop();
    this.callbacks.lost();
    this.timer = setTimeout(() => this.start(), this.wait);
    this.wait = Math.min(MAX_WAIT_MS, 2 * this.wait);
  }
}
