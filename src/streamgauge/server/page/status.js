// The status of the page: a lamp with a word, a note for problems, and announcements for screen readers. Ticks are never
// announced.

import { byId, show } from "./dom.js";
import { whole } from "./numbers.js";
import { isAhead } from "./times.js";

const WORDS = {
  loading: "Loading", starting: "Starting", running: "Live", ended: "Ended", stopping: "Stopping",
  failed: "Failed", lost: "Reconnecting", closed: "Signed out", unloaded: "Not loaded",
};
const NOTES = {
  ended: "The stream has ended. All that was released stays here, and analysts may still request new releases.",
  failed: "The run behind this page has failed. What was released stays here; nothing new comes until the curator restarts it.",
  stopping: "The server is stopping.",
  lost: "The connection is lost. Trying again; what is shown stays as it was.",
};
const LOUD = new Set(["lost", "failed", "ended"]);

export class Status {
  constructor(retry) {
    Object.assign(this, { now: "loading", notes: new Map(), start: null });
    byId("retry").addEventListener("click", retry);
  }

  set(state) {
    const before = this.now;
    this.now = state in WORDS ? state : "running";
    byId("state").dataset.state = this.now;
    this.#word();
    this.note("state", NOTES[this.now] ?? "", this.now === "failed" ? "bad" : "");
    show(byId("retry"), this.now === "lost");
    if (before !== this.now && (LOUD.has(this.now) || before === "lost")) {
      this.say(NOTES[this.now] ?? "The connection is back; nothing was missed.");
    }
  }

  tick(tick) {
    this.shown = tick;
    this.#word();
  }

  /** Set or clear the note of a kind; the newest kind is visible. */
  note(about, text, kind = "") {
    if (this.notes.get(about)?.text !== text) this.notes.delete(about);
    if (text) this.notes.set(about, { text, kind });
    const shown = [...this.notes.values()].at(-1) ?? { text: "", kind: "" };
    byId("banner-text").textContent = shown.text;
    byId("banner").dataset.kind = shown.kind;
    show(byId("banner"), shown.text !== "");
  }

  say(text) {
    byId("announcer").textContent = text;
  }

  #word() {
    const told = this.shown && !["loading", "closed", "unloaded"].includes(this.now);
    const early = this.now === "running" && !told && this.start && isAhead(this.start);
    byId("state-text").textContent = early ? "Not started" : WORDS[this.now] + (told ? ` · tick ${whole(this.shown)}` : "");
  }
}
