/** What a run is compared with: another run of this server, or one of its own attempts whole, at the same step or token. */

import { readCurves } from "./api.js";
import { CurveStore } from "./curve_store.js";
import { BESIDE, segmentsOf } from "./plot_data.js";

const RUN = "run:";
const ATTEMPT = "attempt:";

export class Beside {
  store = new CurveStore();
  /** Why the other run cannot be read; empty while it can. */
  trouble = "";
  #of = "";

  /** @param {string} beside @returns {string} the other run's name; empty: none */
  static runOf(beside) {
    return beside.startsWith(RUN) ? beside.slice(RUN.length) : "";
  }

  /**
   * The curves of the other run, as far as they are new. `ratio`: how many steps of this run have the tokens of one of its own.
   * @param {string} beside @param {string[]} choices @param {Record<string, string>} view @param {number} ratio
   */
  async refresh(beside, choices, view, ratio) {
    const key = JSON.stringify([beside, choices]);
    if (key !== this.#of) this.store.clear();
    this.#of = key;
    const run = Beside.runOf(beside);
    if (!run) {
      this.trouble = "";
      return;
    }
    const ends = ["first", "last"].filter((name) => name in view);
    const steps = ends.map((name) => [name, String(Math.round(Number(view[name]) / ratio))]);
    try {
      const answer = await readCurves(run, choices, this.store.cursor, { ...view, ...Object.fromEntries(steps) });
      if (key === this.#of) this.store.take(answer);
      this.trouble = "";
    } catch (error) {
      this.trouble = error instanceof Error ? error.message : String(error);  // this run's own curves go on
    }
  }

  /**
   * @param {string} choice @param {string} beside @param {CurveStore} own @param {"step" | "tokens"} by
   * @returns {import("./plot_data.js").Line[]} one line, or none
   */
  lines(choice, beside, own, by) {
    if (!beside || choice.endsWith("/")) return [];
    const isRun = beside.startsWith(RUN);
    const { attempts } = isRun ? this.store : own;
    const found = segmentsOf(attempts, (isRun ? this.store : own).of(choice));
    const wanted = isRun
      ? found.filter((segment) => segment.survives)
      : found.filter((segment) => segment.attempt === Number(beside.slice(ATTEMPT.length)));
    const ratio = isRun ? this.ratioFor(by, own) : 1;
    const segments = wanted.map((segment) => (ratio === 1 ? segment : { ...segment, series: stretched(segment.series, ratio) }));
    return segments.length ? [{ segments, colour: BESIDE, member: 0, label: beside }] : [];
  }

  /** @param {"step" | "tokens"} by @param {CurveStore} own */
  ratioFor(by, own) {
    return by === "tokens" ? this.ratio(own) ?? 1 : 1;
  }

  /** How many steps of this run have the tokens of one of the other's; null where one does not say. @param {CurveStore} own */
  ratio(own) {
    const { tokensPerStep: theirs } = this.store;
    return theirs && own.tokensPerStep ? theirs / own.tokensPerStep : null;
  }
}

/** @param {import("./curve_store.js").Series} series @param {number} ratio @returns {import("./curve_store.js").Series} */
function stretched(series, ratio) {
  return { ...series, step: series.step.map((step) => step * ratio) };
}
