// Sign-in: a token is exchanged for a cookie that scripts cannot read; the page does not store it.

import { ask, post, remove } from "./api.js";
import { byId, show } from "./dom.js";

export class Session {
  /** changed(): a sign-in or sign-out here; ended(): the session ended without a sign-out. */
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

  /** The session: null, or {role, name, share, remaining}, without a name for anonymous readers. */
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
