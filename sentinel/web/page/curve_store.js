/** The curves as far as they are known here: each answer of the server is laid over what the answers before it said. */

import { toNumber } from "./numbers.js";

/**
 * Neighbouring steps drawn as one: lowest and highest value from `step[i]` on.
 * @typedef {{step: number[], low: number[], high: number[], nonFinite: number[]}} Series
 * @typedef {{attempt: number, after_step: number, survives_to: number | null, is_over: boolean}} Attempt
 */

const NON_FINITE_KEPT = 64;

export class CurveStore {
  /** @type {Attempt[]} oldest first */
  attempts = [];
  /** How many tokens a step of the newest attempt has; null: not told. @type {number | null} */
  tokensPerStep = null;
  /** Opaque: where the next answer goes on. */
  cursor = "";
  /** Grows with every answer that brought something. */
  version = 0;
  /** @type {Map<string, [number, number]>} by choice, the values that its scale shows */
  reach = new Map();
  /** @type {Map<string, Map<number, Series>>} by metric, by attempt */
  #curves = new Map();

  /** Other curves are wanted, or another run: begin again. */
  clear() {
    this.attempts = [];
    this.cursor = "";
    this.reach.clear();
    this.#curves.clear();
    this.version += 1;
  }

  /** @param {any} answer of /curves */
  take(answer) {
    if (answer.whole) this.#curves.clear();
    const before = this.#frame();
    this.attempts = [...answer.attempts].sort((a, b) => a.attempt - b.attempt);
    this.cursor = answer.cursor;
    const reach = Object.entries(answer.reach ?? {}).filter(([, ends]) => ends);
    this.tokensPerStep = answer.tokens_per_step ?? null;
    this.reach = new Map(reach.map(([choice, ends]) => [choice, ends.map(valueOf)]));
    let isNew = Boolean(answer.whole) || before !== this.#frame();
    for (const [metric, byAttempt] of Object.entries(answer.curves)) {
      for (const [attempt, told] of Object.entries(byAttempt)) {
        const series = this.#series(metric, Number(attempt));
        append(series, told);
        isNew = isNew || told.step.length > 0 || told.non_finite.length > 0;
      }
    }
    if (isNew) this.version += 1;
  }

  /** What is drawn anew when it changes, also without a new point. */
  #frame() {
    return JSON.stringify([this.attempts, this.tokensPerStep, [...this.reach]]);
  }

  /** Of one metric, by attempt. @param {string} metric @returns {Map<number, Series>} */
  of(metric) {
    return this.#curves.get(metric) ?? new Map();
  }

  /** The metrics here that a choice stands for: itself, or all below `name/`. @param {string} choice */
  members(choice) {
    const names = [...this.#curves.keys()];
    const found = names.filter((name) => (choice.endsWith("/") ? name.startsWith(choice) : name === choice));
    return found.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  }

  /** First and last step of everything here; null before there is anything. @returns {[number, number] | null} */
  span() {
    let first = Infinity;
    let last = -Infinity;
    for (const byAttempt of this.#curves.values()) {
      for (const { step, nonFinite } of byAttempt.values()) {
        for (const at of [step[0], step[step.length - 1], nonFinite[0], nonFinite[nonFinite.length - 1]]) {
          if (at !== undefined) [first, last] = [Math.min(first, at), Math.max(last, at)];
        }
      }
    }
    return first <= last ? [first, last] : null;
  }

  /** @param {string} metric @param {number} attempt @returns {Series} */
  #series(metric, attempt) {
    const byAttempt = this.#curves.get(metric) ?? new Map();
    this.#curves.set(metric, byAttempt);
    const series = byAttempt.get(attempt) ?? { step: [], low: [], high: [], nonFinite: [] };
    byAttempt.set(attempt, series);
    return series;
  }
}

/** @param {unknown} told */
const valueOf = (told) => toNumber(told) ?? NaN;

/**
 * The server sends the newest point again with what it has become: what is here from that step on is taken back first.
 * @param {Series} series @param {any} told
 */
function append(series, told) {
  if (told.step.length) {
    const keep = firstAtOrAfter(series.step, told.step[0]);
    for (const column of [series.step, series.low, series.high]) column.length = keep;
    for (let i = 0; i < told.step.length; i += 1) {
      series.step.push(told.step[i]);
      series.low.push(toNumber(told.low[i]) ?? NaN);
      series.high.push(toNumber(told.high[i]) ?? NaN);
    }
  }
  const steps = new Set([...series.nonFinite, ...told.non_finite]);
  series.nonFinite = [...steps].sort((a, b) => a - b).slice(-NON_FINITE_KEPT);
}

/** Where `step` is, or would be put, in ascending steps. @param {number[]} steps @param {number} step */
export function firstAtOrAfter(steps, step) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low;
}
