// Whether what is shown is live: a lamp with a word, a note where something is wrong, and one voice that says
// to screen readers what changed. Ticks are never announced.

import { byId, show } from "./dom.js";

const WORDS = {
  loading: "Loading", starting: "Starting", running: "Live", ended: "Ended", stopping: "Stopping",
  failed: "Failed", lost: "Reconnecting", closed: "Signed out",
};
const NOTES = {
  ended: "The stream has ended. All that was released stays here, and new releases may still be asked for.",
  failed: "The run behind this page has failed. What was released stays here; nothing new comes until the curator restarts it.",
  stopping: "The server is stopping.",
  lost: "The connection is lost. Trying again; what is shown stays as it was.",
};
const LOUD = new Set(["lost", "failed", "ended"]);

export class Status {
  constructor(retry) {
    this.now = "loading";
    byId("retry").addEventListener("click", retry);
  }

  set(state) {
    const before = this.now;
    this.now = state in WORDS ? state : "running";
    byId("state").dataset.state = this.now;
    this.#word();
    this.note(NOTES[this.now] ?? "", this.now === "failed" ? "bad" : "");
    show(byId("retry"), this.now === "lost");
    if (before !== this.now && (LOUD.has(this.now) || before === "lost")) {
      this.say(NOTES[this.now] ?? "The connection is back; nothing was missed.");
    }
  }

  tick(tick) {
    this.shown = tick;
    this.#word();
  }

  note(text, kind = "") {
    byId("banner-text").textContent = text;
    byId("banner").dataset.kind = kind;
    show(byId("banner"), text !== "");
  }

  say(text) {
    byId("announcer").textContent = text;
  }

  #word() {
    const tick = this.shown && this.now !== "loading" && this.now !== "closed" ? ` · tick ${this.shown.toLocaleString("en-GB")}` : "";
    byId("state-text").textContent = WORDS[this.now] + tick;
  }
}
