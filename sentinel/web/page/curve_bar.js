/** The bar above the curves and the legend below it: which curves, how smooth, beside what; and whose colour is whose. */

import { byId, make, redraw } from "./dom.js";
import { countWords, stepWords } from "./numbers.js";
import { colourOf, survivesTo } from "./plot_data.js";
import { SMOOTHINGS } from "./view.js";

const LEGEND_MAX = 12;
const WORDS = new Map([[0, "none"], [0.6, "a little"], [0.9, "more"], [0.97, "much"], [0.99, "very much"]]);

/** @param {string[]} offered @param {string[]} chosen @param {boolean} isFull @param {(choice: string) => void} choose */
export function drawChoices(offered, chosen, isFull, choose) {
  redraw(byId("choices"), [offered, chosen], () =>
    offered.map((choice) => {
      const isShown = chosen.includes(choice);
      const box = make("input", {
        type: "checkbox", checked: isShown, disabled: isFull && !isShown, "data-key": choice, onchange: () => choose(choice),
      });
      return make("label", { class: "check" }, box, choice.endsWith("/") ? `${choice.slice(0, -1)} per layer` : choice);
    }));
}

/**
 * @param {import("./view.js").Choice} choice @param {string[]} others runs @param {number[]} attempts
 * @param {boolean} canCountTokens both say how many tokens a step has
 * @param {(changed: Partial<import("./view.js").Choice>) => void} change
 */
export function drawSelects(choice, others, attempts, canCountTokens, change) {
  const { smooth, beside, by } = choice;
  redraw(byId("selects"), [smooth, beside, by, others, attempts, canCountTokens], () => {
    const known = ["", ...others.map((name) => `run:${name}`), ...attempts.map((one) => `attempt:${one}`)];
    const isGone = !known.includes(beside);
    return [
      select("smooth", String(smooth), SMOOTHINGS.map((one) => [String(one), WORDS.get(one) ?? String(one)]),
        (value) => change({ smooth: Number(value) })),
      select("beside", beside, [
        ["", "nothing"],
        ...attempts.map((one) => [`attempt:${one}`, `attempt ${one}, whole`]),
        ...others.map((name) => [`run:${name}`, `run ${name}`]),
        ...(isGone ? [[beside, `${beside.replace(":", " ")} (not here)`]] : []),
      ], (value) => change({ beside: value })),
      beside.startsWith("run:") && select("at the same", by, [["step", "step"],
        ["tokens", canCountTokens ? "number of tokens" : "number of tokens (not told)"]],
      (value) => change({ by: value === "tokens" ? "tokens" : "step" })),
    ];
  });
}

/** @param {string} name @param {string} value @param {string[][]} options @param {(value: string) => void} change */
function select(name, value, options, change) {
  const chosen = make("select", {
    "data-key": name, onchange: (/** @type {Event} */ event) => change(/** @type {HTMLSelectElement} */ (event.target).value),
  }, ...options.map(([key, words]) => make("option", { value: key, selected: key === value }, words)));
  return make("label", { class: "select" }, `${name} `, chosen);
}

/**
 * @param {import("./curve_store.js").Attempt[]} attempts @param {[number, number] | null} zoomed @param {string} beside in words
 * @param {() => void} reset
 */
export function drawLegend(attempts, zoomed, beside, reset) {
  const told = attempts.map((attempt, at) => ({ number: attempt.attempt, fate: fateOf(attempt, survivesTo(attempts, at)) }));
  const shown = told.slice(-LEGEND_MAX);
  const earlier = told.length - shown.length;
  const ends = zoomed?.map(Math.round);
  redraw(byId("attempts"), [shown, earlier, ends, beside], () => [
    earlier > 0 && make("span", { class: "quiet" }, `${countWords(earlier, "earlier attempt")}, `),
    ...shown.map(legendItem),
    make("span", {}, swatch("abandoned"), "abandoned steps"),
    beside && make("span", {}, swatch("beside"), beside),
    ends && make("button", { type: "button", "data-key": "reset", onclick: reset },
      `steps ${stepWords(ends[0])} to ${stepWords(ends[1])}: show all again`),
  ]);
}

/** @param {import("./curve_store.js").Attempt} attempt @param {number} survives */
function fateOf(attempt, survives) {
  if (survives === Infinity) return attempt.is_over ? "" : "live";
  return survives === -Infinity ? "abandoned" : `to step ${stepWords(survives)}`;
}

/** @param {{number: number, fate: string}} attempt */
function legendItem({ number, fate }) {
  const tone = fate === "abandoned" ? "abandoned" : `attempt-${colourOf(number)}`;
  return make("span", {}, swatch(tone), `attempt ${number}`, fate && make("span", { class: "quiet" }, ` ${fate}`));
}

/** A bit of colour beside words. @param {string} name */
export function swatch(name) {
  return make("i", { class: `swatch ${name}`, "aria-hidden": "true" });
}
