/** Numbers as the API sends them (what is not finite is a word), and as a person reads them. */

const WORDS = new Set(["NaN", "Infinity", "-Infinity"]);

/** @param {unknown} value @returns {number | null} null where it is no number at all */
export function toNumber(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" && WORDS.has(value) ? Number(value) : null;
}

/** Four digits that matter: 2.314, 0.0003, 1.2e+9, 65,536. @param {unknown} value */
export function numberWords(value) {
  const number = toNumber(value);
  if (number === null) return "";
  if (!Number.isFinite(number)) return String(number).replace("Infinity", "∞");
  if (Number.isInteger(number) && Math.abs(number) < 1e9) return number.toLocaleString("en");
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return shortPower(number.toExponential(2));
  return String(Number(number.toPrecision(4)));
}

/** @param {number | null | undefined} step */
export function stepWords(step) {
  return step === null || step === undefined ? "unknown" : step.toLocaleString("en");
}

/** @param {number} ratio */
export function percentWords(ratio) {
  return `${(100 * ratio).toFixed(1)} %`;
}

/** @param {number} count @param {string} noun */
export function countWords(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** 1.20e-5 → 1.2e-5 @param {string} text */
function shortPower(text) {
  return text.replace(/\.?0+e/, "e");
}
