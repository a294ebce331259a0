/** Whether this tab may act, said in the corner; and the token, entered once and forgotten again. */

import { byId, make, redraw } from "./dom.js";
import { askForToken, forgetToken, storedToken } from "./token.js";

const WHY_ACT = "Answers need this server's token (SENTINEL_TOKEN where sentinel runs).";

export class Corner {
  /** A person closed the dialog without a token: it does not come back by itself. */
  #isDeclined = false;
  /** Without a token the server would not even say whether it has one. */
  #isNeeded = false;

  /** @param {() => void} onChange look again, with the other token */
  constructor(onChange) {
    this.onChange = onChange;
    byId("token-button").addEventListener("click", () => void this.#press());
  }

  /** @param {boolean} canAct the server has a token at all */
  draw(canAct) {
    const hasToken = Boolean(storedToken());
    const isOfUse = canAct || this.#isNeeded;
    const words = hasToken ? "may act" : "read-only";
    const why = !hasToken && !isOfUse;  // left out on a phone, whose first screen is for what broke; the answers say it there
    redraw(byId("access"), [words, why], () => [words, why && make("span", { class: "why" }, ": this server has no token")]);
    show("token-button", hasToken ? "forget token" : "enter token");
    byId("token-button").hidden = !isOfUse && !hasToken;
  }

  /** The server shows its runs to nobody without the token. @param {string} words */
  async needed(words) {
    forgetToken();
    this.#isNeeded = true;
    if (this.#isDeclined) return;
    this.#isDeclined = !(await askForToken(words));
    if (!this.#isDeclined) this.onChange();
  }

  async #press() {
    if (storedToken()) forgetToken();
    else if (!(await askForToken(WHY_ACT))) return;
    this.onChange();
  }
}

/** @param {string} id @param {string} words */
function show(id, words) {
  if (byId(id).textContent !== words) byId(id).textContent = words;
}
