/** What lies outside a plot's scale, in words: the farthest on either side. */

import { numberWords, stepWords } from "./numbers.js";
import { BESIDE } from "./plot_data.js";

/** Of what lies outside the farthest on either side. @param {import("./plot_data.js").Outside[]} outside */
export function farthest(outside) {
  return /** @type {const} */ ([1, -1]).flatMap((side) => {
    const own = outside.filter((one) => one.side === side);
    return own.length ? [own.reduce((far, one) => ((one.value - far.value) * side > 0 ? one : far))] : [];
  });
}

/** @param {import("./plot_data.js").Outside} one */
export function outsideWords({ side, value, step, survives, colour }) {
  const whose = colour === BESIDE ? ", of what is compared" : survives ? "" : ", abandoned";
  return `${side > 0 ? "▲" : "▼"} ${numberWords(value)} at step ${stepWords(step)}${whose}`;
}
