/** What the run has cost, what it will cost, and when it will end: a short cell each, for a line of a phone. */

import { minuteWords, spanWords } from "./times.js";

/** @param {any} status @returns {[string, string][]} */
export function costRows(status) {
  const end = status.forecast ? endWords(status.forecast) : "";
  return [...(status.cost_cells ?? []), ["end", end]].filter(([, words]) => words);
}

/** Nothing of a run that has ended: its time says when. @param {any} forecast */
function endWords(forecast) {
  if (forecast.unknown) return forecast.is_over ? "" : `unknown: ${forecast.unknown}`;
  const bounds = `${spanWords(forecast.low_s)} to ${spanWords(forecast.high_s)}`;
  return `in ${spanWords(forecast.left_s)} (${bounds}), ${minuteWords(forecast.end_at_s)}`;
}
