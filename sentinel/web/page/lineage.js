/** The attempts as a small tree over the steps, and below it as a table: where each came from and what of it survives. */

import { byId, make, makeSvg, redraw } from "./dom.js";
import { countWords, stepWords } from "./numbers.js";
import { colourOf } from "./plot_data.js";

const WIDTH_MAX = 900;
const LEFT = 34;
const RIGHT = 12;
const ROW = 22;
const SHOWN = 24;

/** @param {any[]} branches of /lineage, oldest first @param {number | null} newestStep */
export function drawLineage(branches, newestStep) {
  const known = branches.map((branch, at) => withEnd(branch, at === branches.length - 1, newestStep));
  const shown = known.slice(-SHOWN);
  const width = Math.max(240, Math.min(WIDTH_MAX, byId("tree").clientWidth));
  redraw(byId("tree"), [shown, width], () => {
    if (!shown.length) return [make("p", { class: "quiet" }, "No attempt was launched yet.")];
    const more = known.length - shown.length;
    const rest = more > 0 && make("p", { class: "quiet" }, `${countWords(more, "earlier attempt")}: sentinel lineage RUN_DIR`);
    return [tree(shown, width), table(shown), rest];
  });
}

/**
 * The newest attempt's end moves on, and all of it survives.
 * @param {any} branch @param {boolean} isNewest @param {number | null} newestStep
 */
function withEnd(branch, isNewest, newestStep) {
  const last = isNewest && !branch.outcome ? Math.max(branch.last_step, newestStep ?? 0) : branch.last_step;
  return { ...branch, last, kept: isNewest ? last : branch.survives_to };
}

/** @param {any[]} shown @param {number} width in pixels, so that its words are as large as others */
function tree(shown, width) {
  const first = Math.min(...shown.map((branch) => branch.resumed_step));
  const last = Math.max(first + 1, ...shown.map((branch) => branch.last));
  const x = (/** @type {number} */ step) => LEFT + ((step - first) / (last - first)) * (width - LEFT - RIGHT);
  const height = shown.length * ROW + 6;
  const rowOf = new Map(shown.map((branch, at) => [branch.attempt, at]));
  const parts = shown.flatMap((branch, at) => drawn(branch, at, rowOf.get(branch.parent), x));
  const box = `0 0 ${width} ${height}`;
  const size = { width, height, viewBox: box };
  const words = "The tree of attempts; the table below says the same";
  return makeSvg("svg", { ...size, class: "tree", role: "img", "aria-label": words }, ...parts);
}

/**
 * @param {any} branch @param {number} at its row @param {number | undefined} parent that of its parent
 * @param {(step: number) => number} x
 */
function drawn(branch, at, parent, x) {
  const y = at * ROW + ROW / 2 + 3;
  const from = x(branch.resumed_step);
  const to = x(branch.last);
  const kept = branch.kept === null ? from : x(Math.min(branch.kept, branch.last));
  const tone = branch.kept === null ? "abandoned" : `attempt-${colourOf(branch.attempt)}`;
  return [
    parent !== undefined && makeSvg("path", { class: "stem", d: `M${from} ${parent * ROW + ROW / 2 + 3}V${y}` }),
    to > kept && makeSvg("path", { class: "branch abandoned", d: `M${kept} ${y}H${to}` }),
    kept > from && makeSvg("path", { class: `branch ${tone}`, d: `M${from} ${y}H${kept}` }),
    makeSvg("circle", { class: `node ${tone}`, cx: from, cy: y, r: 4 }),
    makeSvg("text", { x: LEFT - 10, y: y + 4, "text-anchor": "end" }, branch.attempt),
  ];
}

/** @param {any[]} shown */
function table(shown) {
  const words = ["attempt", "from", "steps", "survives", "end"];
  const head = make("tr", {}, ...words.map((word) => make("th", { scope: "col" }, word)));
  const rows = [...shown].reverse().map((branch) =>
    make("tr", {},
      make("th", { scope: "row" }, branch.attempt),
      make("td", {}, originWords(branch)),
      make("td", {}, branch.first_step === null ? "none" : `${stepWords(branch.first_step)} to ${stepWords(branch.last)}`),
      make("td", {}, keptWords(branch)),
      make("td", {},
        make("div", {}, `launched: ${branch.why}`),
        make("div", { class: "quiet" }, branch.outcome ? `${branch.outcome}: ${branch.end_reason}` : "has not ended"))));
  const region = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of attempts" };
  return make("div", region, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

/** @param {any} branch */
function originWords(branch) {
  if (!branch.resumed_step) return "scratch";
  return `step ${stepWords(branch.resumed_step)}${branch.parent === null ? "" : ` of ${branch.parent}`}`;
}

/** @param {any} branch */
function keptWords(branch) {
  if (branch.kept === null) return "nothing";
  return branch.kept >= branch.last ? "all" : `to step ${stepWords(branch.kept)}`;
}
