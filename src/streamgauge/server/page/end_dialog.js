// Confirmation before the end of a release, which cannot be undone. Focus then moves to the heading of the release.

import { remove } from "./api.js";
import { byId } from "./dom.js";

export class EndDialog {
  /** ended(name), refused(name, refusal). */
  constructor({ ended, refused }) {
    Object.assign(this, { ended, refused });
    byId("ending-leave").addEventListener("click", () => byId("ending").close());
    byId("ending-form").addEventListener("submit", (event) => { event.preventDefault(); this.#end(); });
    byId("ending").addEventListener("close", () => this.heading?.focus());
  }

  ask({ name, title }, heading, backText) {
    Object.assign(this, { name, heading });
    byId("ending-title").textContent = `End ${title || name}?`;
    byId("ending-words").textContent = `No more ticks of it are released, and it can only return as a new request. ${backText}`;
    byId("ending").showModal();
    byId("ending-leave").focus();
  }

  async #end() {
    const button = byId("ending-do");
    button.setAttribute("aria-busy", "true");
    try {
      await remove(`/api/releases/${encodeURIComponent(this.name)}`);
      byId("ending").close();
      await this.ended(this.name);
    } catch (refusal) {
      byId("ending").close();
      this.refused(this.name, refusal);
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
}
