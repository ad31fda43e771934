// Dialog that confirms the end of a release, which cannot be undone. Focus then moves to the heading of the release.

import { remove } from "./api.js";
import { byId } from "./dom.js";

export class EndDialog {
  /** onEnd(name): the release was ended; onRefusal(name, refusal): it was not. */
  constructor({ onEnd, onRefusal }) {
    Object.assign(this, { onEnd, onRefusal });
    byId("ending-leave").addEventListener("click", () => byId("ending").close());
    byId("ending-form").addEventListener("submit", (event) => { event.preventDefault(); this.#end(); });
    byId("ending").addEventListener("close", () => this.heading?.focus());
  }

  open({ name, title }, heading, refundText) {
    Object.assign(this, { name, heading });
    byId("ending-title").textContent = `End ${title || name}?`;
    byId("ending-words").textContent = `It publishes no more ticks. You cannot undo this: only a new request can start it again. ${refundText}`;
    byId("ending").showModal();
    byId("ending-leave").focus();
  }

  async #end() {
    const button = byId("ending-do");
    button.setAttribute("aria-busy", "true");
    try {
      await remove(`/api/releases/${encodeURIComponent(this.name)}`);
      byId("ending").close();
      await this.onEnd(this.name);
    } catch (refusal) {
      byId("ending").close();
      this.onRefusal(this.name, refusal);
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
}
