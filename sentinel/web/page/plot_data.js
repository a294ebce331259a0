/**
 * Curves as uPlot wants them: one column of steps, and beside it columns of values. Pure.
 *
 * What survives is drawn in its attempt's colour; what was abandoned is grey and goes into lanes, so that branches which overlap
 * stand side by side in a few columns however often the run was relaunched.
 */

import { firstAtOrAfter } from "./curve_store.js";
import { smoothed } from "./smoothing.js";

export const COLOURS = 6;
export const BESIDE = -2;  // the colour of what is compared
const LANES_MAX = 6;
const MEMBERS_MAX = 16;
const POINTS_ACROSS = 1024;  // more than a plot has pixels

/** @typedef {import("./curve_store.js").Series} Series @typedef {import("./curve_store.js").Attempt} Attempt */
/**
 * Part of one attempt's curve: points `from` to `to` (without it).
 * @typedef {{attempt: number, series: Series, from: number, to: number, survives: boolean}} Segment
 * @typedef {{step: number[], low: number[], high: number[]}} Part
 * `colour`: 0 to 5, -1 for what was abandoned, or BESIDE. `member`: which metric of a family it is, 0 for one alone.
 * @typedef {{segments: Segment[], colour: number, member: number, label: string}} Line
 */

/** The colour of an attempt. @param {number} attempt */
export const colourOf = (attempt) => (attempt - 1 + COLOURS) % COLOURS;

/**
 * The last step of an attempt that the present weights stand on: all of the newest one.
 * @param {Attempt[]} attempts @param {number} at
 */
export function survivesTo(attempts, at) {
  if (at === attempts.length - 1) return Infinity;
  return attempts[at].survives_to ?? -Infinity;
}

/**
 * Each attempt's curve cut in two where what came later was abandoned. The cut point belongs to both, so that the line goes on.
 * @param {Attempt[]} attempts @param {Map<number, Series>} byAttempt @returns {Segment[]}
 */
export function segmentsOf(attempts, byAttempt) {
  /** @type {Segment[]} */
  const found = [];
  attempts.forEach(({ attempt }, at) => {
    const series = byAttempt.get(attempt);
    if (!series || !series.step.length) return;
    const count = series.step.length;
    const cut = firstAtOrAfter(series.step, survivesTo(attempts, at) + 1);
    if (cut > 0) found.push({ attempt, series, from: 0, to: cut, survives: true });
    if (cut < count) found.push({ attempt, series, from: Math.max(0, cut - 1), to: count, survives: false });
  });
  return found;
}

/**
 * The lines of one metric: abandoned lanes first (they are drawn below), then a line for each colour.
 * @param {Attempt[]} attempts @param {Map<number, Series>} byAttempt @returns {Line[]}
 */
export function linesOfOne(attempts, byAttempt) {
  const segments = segmentsOf(attempts, byAttempt);
  const lines = lanes(segments).map((lane) => abandoned(lane, 0));
  const alive = segments.filter((segment) => segment.survives);
  for (let colour = 0; colour < COLOURS; colour += 1) {
    const own = alive.filter((segment) => colourOf(segment.attempt) === colour);
    const label = `attempt ${own.map((segment) => segment.attempt).join(", ")}`;
    if (own.length) lines.push({ segments: own, colour, member: 0, label });
  }
  return lines;
}

/**
 * The lines of a family (one per layer): what survives, a colour for each layer; of many layers some, evenly chosen.
 * @param {Attempt[]} attempts @param {string[]} names @param {(name: string) => Map<number, Series>} of @returns {Line[]}
 */
export function linesOfFamily(attempts, names, of) {
  const every = Math.max(1, Math.ceil(names.length / MEMBERS_MAX));
  const chosen = names.filter((_, at) => at % every === 0 || at === names.length - 1);
  const cut = chosen.map((name) => segmentsOf(attempts, of(name)));
  const lines = cut.flatMap((segments, member) => lanes(segments).slice(-1).map((lane) => abandoned(lane, member)));
  cut.forEach((segments, member) => {
    const alive = segments.filter((segment) => segment.survives);
    if (alive.length) lines.push({ segments: alive, colour: 0, member, label: chosen[member] });
  });
  return lines;
}

/** @param {Segment[]} lane @param {number} member @returns {Line} */
const abandoned = (lane, member) => ({ segments: lane, colour: -1, member, label: "abandoned" });

/**
 * What was abandoned, in lanes: branches that do not overlap share one. Where more overlap than there are lanes, the newest are
 * drawn; the lane of the newest of all is the last.
 * @param {Segment[]} segments oldest first @returns {Segment[][]}
 */
function lanes(segments) {
  /** @type {Segment[][]} */
  const found = [];
  for (const segment of segments.filter((one) => !one.survives).reverse()) {
    const free = found.find((lane) => lane.every((other) => last(other) < first(segment) || last(segment) < first(other)));
    if (free) free.unshift(segment);
    else if (found.length < LANES_MAX) found.unshift([segment]);
  }
  return found;
}

/** @param {Segment} segment */
const first = (segment) => segment.series.step[segment.from];

/** @param {Segment} segment */
const last = (segment) => segment.series.step[segment.to - 1];

/**
 * @param {Line[]} lines @param {boolean} isFamily highest values only, where false lowest and highest
 * @param {[number, number]} range the steps shown @param {number} smooth 0: not at all
 * @returns {(number | null | undefined)[][]} steps, and for each line its column, or its two, and behind them the smoothed one
 */
export function columnsOf(lines, isFamily, range, smooth = 0) {
  const parts = lines.map((line) => line.segments.map((segment) => visible(segment, range)).filter((part) => part.step.length));
  const steps = [...new Set(parts.flatMap((own) => own.flatMap((part) => part.step)))].sort((a, b) => a - b);
  const at = new Map(steps.map((step, index) => [step, index]));
  /** @type {(number | null | undefined)[][]} */
  const columns = [steps];
  for (const own of parts) {
    const low = new Array(steps.length).fill(null);
    const high = new Array(steps.length).fill(null);
    for (const part of own) lay(part, at, low, high);
    columns.push(...(isFamily ? [high] : [low, high]), ...(smooth ? [smoothed(isFamily ? high : low, high, smooth)] : []));
  }
  return columns;
}

/**
 * Of a segment what is shown, and a point beside it on either side. Where there are more steps than can be told apart, neighbours
 * are put together on a grid that all lines share: their lowest and their highest value stay.
 * @param {Segment} segment @param {[number, number]} range @returns {Part}
 */
function visible({ series, from, to }, [first, last]) {
  const begin = Math.max(from, firstAtOrAfter(series.step, first) - 1);
  const end = Math.min(to, firstAtOrAfter(series.step, last + 1) + 1);
  const width = Math.ceil((last - first) / POINTS_ACROSS);
  /** @type {Part} */
  const part = { step: [], low: [], high: [] };
  for (let i = begin; i < end; i += 1) {
    const step = Math.max(Math.floor(series.step[i] / width) * width, series.step[begin]);
    const newest = part.step.length - 1;
    if (part.step[newest] === step) {
      part.low[newest] = Math.min(part.low[newest], series.low[i]);
      part.high[newest] = Math.max(part.high[newest], series.high[i]);
    } else {
      part.step.push(step);
      part.low.push(series.low[i]);
      part.high.push(series.high[i]);
    }
  }
  return part;
}

/**
 * uPlot breaks a line at null and draws through undefined: null lies around a part, undefined at the steps within it that only
 * other lines have.
 * @param {Part} part @param {Map<number, number>} at @param {any[]} low @param {any[]} high
 */
function lay({ step, low: lowest, high: highest }, at, low, high) {
  const index = (/** @type {number} */ i) => at.get(step[i]) ?? 0;
  low.fill(undefined, index(0), index(step.length - 1) + 1);
  high.fill(undefined, index(0), index(step.length - 1) + 1);
  for (let i = 0; i < step.length; i += 1) {
    low[index(i)] = lowest[i];
    high[index(i)] = highest[i];
  }
}

/**
 * What lies outside the scale among the steps shown: for each place only the farthest of its side. Oldest first.
 * @typedef {{step: number, value: number, side: 1 | -1, attempt: number, colour: number, survives: boolean}} Outside
 * @param {Line[]} lines @param {[number, number]} reach @param {[number, number]} range
 * @param {number} places across @param {boolean} isFamily
 * @returns {Outside[]}
 */
export function outsideOf(lines, [low, high], range, places, isFamily) {
  const width = Math.max(1, (range[1] - range[0]) / places);
  /** @type {Map<string, Outside>} */
  const far = new Map();
  const take = (/** @type {Outside} */ found) => {
    const place = `${found.side} ${Math.floor((found.step - range[0]) / width)}`;
    const known = far.get(place);
    if (!known || (found.value - known.value) * found.side > 0) far.set(place, found);
  };
  for (const { colour, segments } of lines) {
    for (const { attempt, series, from, to, survives } of segments) {
      const end = Math.min(to, firstAtOrAfter(series.step, range[1] + 1));
      for (let i = Math.max(from, firstAtOrAfter(series.step, range[0])); i < end; i += 1) {
        const told = { step: series.step[i], attempt, colour, survives };
        if (series.high[i] > high) take({ ...told, value: series.high[i], side: 1 });
        if (series.low[i] < low && !isFamily) take({ ...told, value: series.low[i], side: -1 });
      }
    }
  }
  return [...far.values()].sort((a, b) => a.step - b.step);
}

/**
 * What a curve says at a step, of what survives where it does: its newest point at or before it.
 * @param {Segment[]} segments @param {number} step @returns {{attempt: number, step: number, low: number, high: number} | null}
 */
export function valueAt(segments, step) {
  const holding = segments.filter((s) => s.series.step[s.from] <= step && (step <= last(s) || s.survives));
  const best = holding.sort((a, b) => Number(b.survives) - Number(a.survives) || b.attempt - a.attempt)[0];
  if (!best) return null;
  const { series, from, to, attempt } = best;
  const index = Math.min(to - 1, Math.max(from, firstAtOrAfter(series.step, step + 1) - 1));
  return { attempt, step: series.step[index], low: series.low[index], high: series.high[index] };
}
