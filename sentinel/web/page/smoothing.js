/** Curves smoothed for the eye: each point a weighted mean of those drawn before it. Pure. */

/**
 * The exponential mean, corrected for its beginning, so that the first point is itself. A gap (null) begins anew; what is only
 * passed through (undefined), or is no number, is left as it is.
 * @param {(number | null | undefined)[]} low @param {(number | null | undefined)[]} high @param {number} weight below 1
 * @returns {(number | null | undefined)[]}
 */
export function smoothed(low, high, weight) {
  let sum = 0;
  let share = 0;
  return high.map((top, at) => {
    const bottom = low[at];
    if (top === null) sum = share = 0;
    if (typeof top !== "number" || typeof bottom !== "number" || !Number.isFinite(top + bottom)) return top;
    sum = weight * sum + (1 - weight) * ((top + bottom) / 2);
    share = weight * share + 1 - weight;
    return sum / share;
  });
}
