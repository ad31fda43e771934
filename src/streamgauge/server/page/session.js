// Signing in: a token is swapped for a cookie that scripts cannot read, and is not kept by the page.

import { ask, post, remove } from "./api.js";
import { byId, show } from "./dom.js";

export class Session {
  /** changed(): someone signed in or out here; ended(): a session is over that nobody here has left. */
  constructor({ changed, ended }) {
    Object.assign(this, { changed, ended, who: null });
    byId("sign").addEventListener("click", () => (this.signed ? this.leave() : this.open()));
    byId("gate-sign").addEventListener("click", () => this.open());
    byId("signing-leave").addEventListener("click", () => byId("signing").close());
    byId("signing").addEventListener("close", () => { byId("token").value = ""; });
    byId("signing-form").addEventListener("submit", (event) => { event.preventDefault(); this.#enter(); });
  }

  get signed() {
    return Boolean(this.who?.name);
  }

  /** Who is in by now: null, or {role, name, share, left}, without a name where everybody may read. */
  async load() {
    const before = this.signed;
    this.who = await ask("/api/session").catch((refusal) => { if (refusal.status === 401) return null; throw refusal; });
    this.#button();
    if (before && !this.signed) this.ended();
    return this.who;
  }

  open() {
    show(byId("signing-refused"), false);
    byId("signing").showModal();
    byId("token").focus();
  }

  async #enter() {
    const token = byId("token");
    try {
      await post("/api/session", { token: token.value.trim() });
      byId("signing").close();
      await this.changed();
    } catch (refusal) {
      byId("signing-refused").textContent = refusal.status === 401 ? "This token is not known here, or was revoked." : `${refusal.message}.`;
      show(byId("signing-refused"), true);
    }
  }

  async leave() {
    await remove("/api/session").catch(() => null);
    this.who = null;
    await this.changed();
  }

  #button() {
    const button = byId("sign");
    button.textContent = this.signed ? "Sign out" : "Sign in";
    button.title = this.signed ? `Signed in as ${this.who.name}` : "";
    show(button, true);
  }
}
