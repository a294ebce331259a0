/** What a person has chosen to see of the curves, as the address remembers it: a link that is sent shows the same. */

/**
 * `curves` null: the usual ones. `smooth`: weight of what came before, 0 none. `last`: so many newest steps, 0 all. `beside`:
 * with what it is compared, "run:NAME", "attempt:N", or nothing; `by`: at the same step, or at the same number of tokens.
 * @typedef {{curves: string[] | null, smooth: number, isLog: boolean, last: number, beside: string,
 *   by: "step" | "tokens"}} Choice
 */

export const SMOOTHINGS = [0, 0.6, 0.9, 0.97, 0.99];

/** @returns {Choice} */
export function readChoice() {
  const asked = new URLSearchParams(location.search);
  const smooth = Number(asked.get("smooth"));
  const last = Number(asked.get("last"));
  const beside = asked.get("beside") ?? "";
  return {
    curves: asked.has("curves") ? (asked.get("curves") ?? "").split(",").filter(Boolean) : null,
    smooth: SMOOTHINGS.includes(smooth) ? smooth : 0,
    isLog: asked.get("scale") === "log",
    last: Number.isInteger(last) && last > 0 ? last : 0,
    beside: /^(run:.|attempt:\d)/.test(beside) ? beside : "",
    by: asked.get("by") === "tokens" ? "tokens" : "step",
  };
}

/** Only what is not as usual stands there; the part behind the # says which run, and stays. @param {Choice} choice */
export function keepChoice({ curves, smooth, isLog, last, beside, by }) {
  const kept = new URLSearchParams();
  if (curves) kept.set("curves", curves.join(","));
  if (smooth) kept.set("smooth", String(smooth));
  if (isLog) kept.set("scale", "log");
  if (last) kept.set("last", String(last));
  if (beside) kept.set("beside", beside);
  if (beside && by === "tokens") kept.set("by", by);
  const words = kept.toString();
  history.replaceState(null, "", `${location.pathname}${words ? `?${words}` : ""}${location.hash}`);
}
