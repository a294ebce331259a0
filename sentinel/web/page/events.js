/** What happened, newest first; and every line of an incident for its own timeline. */

import { readEvents } from "./api.js";
import { byId, make, redraw } from "./dom.js";
import { elapsedWords, localWords } from "./times.js";

const KEPT = 4000;
const SHOWN = 200;
const ROUNDS_MAX = 10;
const PIECE = 500;

/** @typedef {{seq: number, at_s: number, elapsed_s: number, text: string, tone: string, incident: number | null}} Line */

export class Events {
  /** @type {Line[]} oldest first */
  lines = [];
  /** Lines of before are not here: elapsed seconds; null where all are. @type {number | null} */
  since = null;
  #seq = 0;
  #run = "";
  /** @type {number | null} shown up to this line while the list is frozen */
  #frozenAt = null;

  constructor() {
    byId("pause-events").addEventListener("click", () => this.toggleFrozen());
  }

  /** @param {string} run */
  begin(run) {
    this.#run = run;
    this.lines = [];
    this.since = null;
    this.#seq = 0;
    this.#frozenAt = null;
  }

  /** @param {number} newest the server's newest */
  async refresh(newest) {
    if (newest < this.#seq) this.begin(this.#run);  // another journal than before
    for (let round = 0; round < ROUNDS_MAX && newest > this.#seq; round += 1) {
      const run = this.#run;
      const answer = await readEvents(run, this.#seq);
      if (run !== this.#run) return;
      this.lines.push(...answer.events.filter((/** @type {Line} */ line) => line.seq > this.#seq));
      const isAll = answer.events.length < PIECE;  // the server tells the newest PIECE
      if (!isAll || this.lines.length > KEPT) this.since = (isAll ? this.lines.slice(-KEPT) : answer.events)[0].elapsed_s;
      this.lines = this.lines.slice(-KEPT);
      this.#seq = isAll ? Math.max(answer.seq, newest) : answer.events[answer.events.length - 1].seq;
      if (isAll) break;
    }
  }

  /** @param {number} incident */
  of(incident) {
    return this.lines.filter((line) => line.incident === incident);
  }

  /** Whether all that happened so long after the run began is here. @param {number} elapsedS */
  reachesTo(elapsedS) {
    return this.since === null || this.since < elapsedS;
  }

  toggleFrozen() {
    this.#frozenAt = this.#frozenAt === null ? this.#seq : null;
    this.draw();
  }

  draw() {
    const frozenAt = this.#frozenAt;
    const known = frozenAt === null ? this.lines : this.lines.filter((line) => line.seq <= frozenAt);
    const waiting = this.lines.length - known.length;
    const button = byId("pause-events");
    button.setAttribute("aria-pressed", String(frozenAt !== null));
    button.textContent = frozenAt === null ? "freeze" : waiting ? `frozen, ${waiting} new` : "frozen";
    const shown = known.slice(-SHOWN).reverse();
    redraw(byId("event-list"), [shown.map((line) => line.seq), shown.length && localWords(shown[0].at_s)], () =>
      shown.length ? shown.map((line) => lineItem(line)) : [make("li", { class: "quiet" }, "Nothing yet.")]);
  }
}

/** Elapsed time, local time, and the words. @param {Line} line */
export function lineItem(line) {
  return make("li", { class: line.tone },
    make("span", { class: "when" },
      make("b", {}, elapsedWords(line.elapsed_s)), " ", make("time", {}, localWords(line.at_s))),
    make("span", { class: "text" }, line.text.trim().replace(/^- /, "")));
}
