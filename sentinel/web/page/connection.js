/** Says when answers stop coming: since when, why, and how old what is shown has become. */

import { byId, make, redraw } from "./dom.js";
import { spanWords, timeWords } from "./times.js";

export class Connection {
  /** @type {Date | null} of the newest whole round */
  #heard = null;
  /** @type {Date | null} */
  #lostSince = null;
  #reason = "";
  #isThere = false;

  /** @param {() => void} retry */
  constructor(retry) {
    this.retry = retry;
    setInterval(() => this.#draw(), 1000);
  }

  heard() {
    this.#heard = new Date();
    this.#lostSince = null;
    this.#reason = "";
    this.#draw();
  }

  /** @param {string} reason @param {boolean} isThere the server answers, but not with what was asked for */
  lost(reason, isThere) {
    this.#lostSince ??= new Date();
    this.#reason = reason;
    this.#isThere = isThere;
    this.#draw();
  }

  #draw() {
    const notice = byId("connection");
    document.body.classList.toggle("stale", this.#lostSince !== null);
    notice.hidden = this.#lostSince === null;
    if (this.#lostSince === null) return;
    const shown = this.#heard ? `showing the state of ${timeWords(this.#heard)}` : "nothing was shown yet";
    const what = this.#isThere ? "The server cannot tell all" : "Connection lost";
    const since = `${what} since ${timeWords(this.#lostSince)}, ${shown}.`;
    const old = this.#heard ? (Date.now() - this.#heard.getTime()) / 1000 : 0;
    redraw(notice, [since, this.#reason], () => [
      make("p", {}, make("strong", {}, since), " ", make("span", { class: "age", "aria-hidden": "true" }), ` ${this.#reason} `),
      make("button", { type: "button", "data-key": "retry", onclick: () => this.retry() }, "try now"),
    ]);
    const age = notice.querySelector(".age");
    if (age) age.textContent = this.#heard ? `(${spanWords(Math.floor(old))} old)` : "";
  }
}
