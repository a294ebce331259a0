/**
 * What happened has its time with it, in Unix seconds, and is shown by it: as local time, the same whenever and wherever somebody
 * looks. This machine's clock says only which day is today.
 */

const DAY_S = 86_400;
const NO_TIE = 1 + 1e-9;
const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const minuteFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "short", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const yearFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

/** The local clock at a moment; empty for none. @param {number | null | undefined} atS Unix seconds */
export function localWords(atS) {
  return atS === null || atS === undefined ? "" : timeWords(new Date(atS * 1000));
}

/** The clock, the day where it is not today, and the year where it is not this one.
 * @param {Date} date @param {Intl.DateTimeFormat} [format] */
export function timeWords(date, format = clockFormat) {
  const clock = format.format(date);
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return clock;
  const day = date.getFullYear() === today.getFullYear() ? dayFormat : yearFormat;
  return `${day.format(date)} ${clock}`;
}

/** The same of a forecast, which no second is known of. @param {number} atS Unix seconds */
export function minuteWords(atS) {
  return timeWords(new Date(atS * 1000), minuteFormat);
}

/** A moment of a run, by its own clock: 3:07, 1:03:07, 2 d 1:03:07. @param {number | null | undefined} seconds */
export function elapsedWords(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  const days = Math.floor(whole / DAY_S);
  const hours = Math.floor((whole % DAY_S) / 3600);
  const rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  if (days) return `${days} d ${hours}:${rest}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

/**
 * A length of time, in the words of `time_words` in sentinel/model/amounts.py: 0.25 s, 40 s, 4 min 30 s, 2 h 5 min, 3 days 4 h.
 * @param {number | null | undefined} seconds
 */
export function spanWords(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (!Number.isFinite(seconds)) return "an unknown time";
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.95) return `${Number((seconds * NO_TIE).toPrecision(2))} s`;
  if (seconds < 9.95) return `${Math.floor(seconds * 10 + 0.5) / 10} s`;
  const whole = Math.floor(seconds + 0.5);
  if (whole < 120) return `${whole} s`;
  if (whole < 3600) return twoUnits(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < DAY_S) return twoUnits(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  const days = Math.floor(whole / DAY_S);
  return twoUnits(days, days === 1 ? "day" : "days", Math.floor((whole % DAY_S) / 3600), "h");
}

/** @param {number} many @param {string} large @param {number} few @param {string} small */
function twoUnits(many, large, few, small) {
  return few ? `${many} ${large} ${few} ${small}` : `${many} ${large}`;
}

/** @param {number} number */
function two(number) {
  return String(number).padStart(2, "0");
}
