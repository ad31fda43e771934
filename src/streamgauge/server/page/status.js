// The status of the page: the state of the run, a banner for problems, and announcements for screen readers. Ticks are
// never announced.

import { byId, show } from "./dom.js";
import { formatInteger } from "./numbers.js";
import { isFuture } from "./times.js";

const STATE_TEXTS = {
  loading: "Loading", starting: "Starting", running: "Live", ended: "Ended", stopping: "Stopping",
  failed: "Failed", lost: "Reconnecting", closed: "Signed out", unloaded: "Not loaded",
};
const STATE_NOTES = {
  ended: "The stream has ended. All its releases remain here, and analysts can still request new ones.",
  failed: "The run has failed. All its releases remain here, and there are no new ticks until the curator restarts it.",
  stopping: "The server is stopping.",
  lost: "The connection is lost. The page shows the last known values and tries to reconnect.",
};
const ANNOUNCED_STATES = new Set(["lost", "failed", "ended"]);

export class Status {
  constructor(retry) {
    Object.assign(this, { now: "loading", notes: new Map(), start: null });
    byId("retry").addEventListener("click", retry);
  }

  set(state) {
    const before = this.now;
    this.now = state in STATE_TEXTS ? state : "running";
    byId("state").dataset.state = this.now;
    this.#updateText();
    this.note("state", STATE_NOTES[this.now] ?? "", this.now === "failed" ? "bad" : "");
    show(byId("retry"), this.now === "lost");
    if (before !== this.now && (ANNOUNCED_STATES.has(this.now) || before === "lost")) {
      this.say(STATE_NOTES[this.now] ?? "The connection is back, and nothing was missed.");
    }
  }

  tick(tick) {
    this.shown = tick;
    this.#updateText();
  }

  /** Set or clear the note about a topic. The banner shows the newest note. */
  note(topic, text, kind = "") {
    if (this.notes.get(topic)?.text !== text) this.notes.delete(topic);
    if (text) this.notes.set(topic, { text, kind });
    const shown = [...this.notes.values()].at(-1) ?? { text: "", kind: "" };
    byId("banner-text").textContent = shown.text;
    byId("banner").dataset.kind = shown.kind;
    show(byId("banner"), shown.text !== "");
  }

  say(text) {
    byId("announcer").textContent = text;
  }

  #updateText() {
    const hasTick = this.shown && !["loading", "closed", "unloaded"].includes(this.now);
    const isEarly = this.now === "running" && !hasTick && this.start && isFuture(this.start);
    byId("state-text").textContent = isEarly ? "Not started" : STATE_TEXTS[this.now] + (hasTick ? ` · tick ${formatInteger(this.shown)}` : "");
  }
}
