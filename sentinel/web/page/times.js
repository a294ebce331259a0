/**
 * What happened has its time with it, in Unix seconds, and is shown by it: as local time, the same whenever and wherever somebody
 * looks. This machine's clock says only which day is today.
 */

const DAY_S = 86_400;
const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** The local clock at a moment; empty for none. @param {number | null | undefined} atS Unix seconds */
export function localWords(atS) {
  return atS === null || atS === undefined ? "" : timeWords(new Date(atS * 1000));
}

/** The clock, and the day where it is not today. @param {Date} date */
export function timeWords(date) {
  const clock = clockFormat.format(date);
  return date.toDateString() === new Date().toDateString() ? clock : `${dayFormat.format(date)} ${clock}`;
}

/** Elapsed time: 3:07, 1:03:07, 2 d 1:03:07. @param {number | null | undefined} seconds */
export function elapsedWords(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  const days = Math.floor(whole / DAY_S);
  const hours = Math.floor((whole % DAY_S) / 3600);
  const rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  if (days) return `${days} d ${hours}:${rest}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

/** A length of time: 13.8 s, 4 min 12 s, 3 h 5 min. @param {number | null | undefined} seconds */
export function spanWords(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** @param {number} number */
function two(number) {
  return String(number).padStart(2, "0");
}
