// Sign-in. The page exchanges a token for a cookie that scripts cannot read, and does not store the token.

import { request, post, remove } from "./api.js";
import { byId, show } from "./dom.js";

export class Session {
  /** changed(): the user signed in or out; ended(): the session ended without a sign-out. */
  constructor({ changed, ended }) {
    Object.assign(this, { changed, ended, user: null });
    byId("sign").addEventListener("click", () => (this.isSignedIn ? this.signOut() : this.open()));
    byId("gate-sign").addEventListener("click", () => this.open());
    byId("signing-leave").addEventListener("click", () => byId("signing").close());
    byId("signing").addEventListener("close", () => { byId("token").value = ""; });
    byId("signing-form").addEventListener("submit", (event) => { event.preventDefault(); this.#signIn(); });
  }

  get isSignedIn() {
    return Boolean(this.user?.name);
  }

  /** Load the session: null, or {role, name, share, remaining}. Anonymous readers have no name. */
  async load() {
    const wasSignedIn = this.isSignedIn;
    this.user = await request("/api/session").catch((refusal) => { if (refusal.status === 401) return null; throw refusal; });
    this.#button();
    if (wasSignedIn && !this.isSignedIn) this.ended();
    return this.user;
  }

  open() {
    show(byId("signing-refused"), false);
    byId("signing").showModal();
    byId("token").focus();
  }

  async #signIn() {
    const token = byId("token");
    try {
      await post("/api/session", { token: token.value.trim() });
      byId("signing").close();
      await this.changed();
    } catch (refusal) {
      byId("signing-refused").textContent = refusal.status === 401 ? "The token is unknown or was revoked." : `${refusal.message}.`;
      show(byId("signing-refused"), true);
    }
  }

  async signOut() {
    await remove("/api/session").catch(() => null);
    this.user = null;
    await this.changed();
  }

  #button() {
    const button = byId("sign");
    button.textContent = this.isSignedIn ? "Sign out" : "Sign in";
    button.title = this.isSignedIn ? `Signed in as ${this.user.name}` : "";
    show(button, true);
  }
}
