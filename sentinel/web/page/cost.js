/** What the run has cost, and when it will end: one line each, for the header. */

import { localWords, spanWords } from "./times.js";

/** @param {any} status @returns {[string, string][]} */
export function costRows(status) {
  const end = status.forecast ? endWords(status.forecast, status.due_words) : "";
  /** @type {[string, string][]} */
  const rows = [["cost", status.cost_words ?? ""], ["end", end]];
  return rows.filter(([, words]) => words);
}

/**
 * Nothing of a run that has ended: its time says when.
 * @param {any} forecast @param {string | undefined} due what the rest will cost
 */
function endWords(forecast, due) {
  if (forecast.unknown) return forecast.is_over ? "" : `unknown: ${forecast.unknown}`;
  const bounds = `${spanWords(forecast.low_s)} to ${spanWords(forecast.high_s)}`;
  return `in ${spanWords(forecast.left_s)} (${bounds}), ${localWords(forecast.end_at_s)}${due ? `; ${due}` : ""}`;
}
