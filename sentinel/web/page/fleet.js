/** All runs of the server, worst first: what whoever opens its root reads before choosing one. */

import { byId, make, makeSvg, redraw } from "./dom.js";
import { countWords, percentWords, stepWords, toNumber } from "./numbers.js";
import { addressOf } from "./runs.js";
import { isEnded, standTone, standWords } from "./states.js";

const WIDTH = 120;
const HEIGHT = 28;
const OUTLYING = 0.05;  // of the values at either end lie outside of the scale: one spike must not flatten the rest

/**
 * @param {any[]} runs worst first @param {string} missing a run that the address names and nobody knows
 * @param {number} [leftOut] older ones beside them that the list has no room for
 */
export function drawFleet(runs, missing, leftOut = 0) {
  redraw(byId("fleet"), [runs, missing, leftOut], () => [
    missing && make("p", { class: "card warn", role: "alert" },
      `There is no run “${missing}” here. It may lie in another place, or its directory was renamed or removed.`),
    make("h1", {}, runs.length ? countWords(runs.length, "run") : "No run is known here yet"),
    runs.length === 0 && make("p", {}, "A run appears here as soon as it begins."),
    make("ol", { class: "fleet" }, ...runs.map(row)),
    leftOut > 0 && make("p", { class: "quiet" },
      `${countWords(leftOut, "older run")} beside them: one is shown by its name, as in #run=NAME.`),
  ]);
}

/** @param {any} run */
function row(run) {
  const steps = run.total_steps ? `step ${stepWords(run.step)} of ${stepWords(run.total_steps)}` : `step ${stepWords(run.step)}`;
  const isWatched = run.supervisor === "alive" || isEnded(run.state);
  const goodput = run.goodput === null ? "unknown" : percentWords(run.goodput);
  return make("li", {},
    make("a", { href: addressOf(run.name), "data-key": run.name },
      make("span", { class: "named" }, make("b", {}, run.name),
        make("span", { class: `chip small ${standTone(run)}` }, standWords(run)),
        run.paged && make("span", { class: "chip small bad" }, "paged"),
        run.place && make("span", { class: "quiet" }, `in ${run.place}`)),
      make("span", {}, `${steps} · goodput ${goodput}`, !isWatched && ` · supervisor ${run.supervisor}`),
      run.trouble && make("strong", {}, `this is older than it should be: ${run.trouble}`),
      run.unwatched && make("strong", {}, run.unwatched),
      run.incident?.awaits_approval && make("strong", {}, "waits for your approval"),
      make("span", { class: "quiet what" }, whatWords(run)),
      sparkline(run.loss ?? [], run.name)));
}

/** What is wrong, and who knows. @param {any} run */
function whatWords(run) {
  const incident = run.incident;
  if (!incident) return run.reason ?? "";
  const since = incident.onset_step === null ? "" : ` since step ${stepWords(incident.onset_step)}`;
  const more = run.open_incidents > 1 ? ` and ${run.open_incidents - 1} more` : "";
  const called = incident.called.length ? `; called: ${incident.called.join(", ")}` : "";
  const held = incident.held ? `; ${incident.held}` : "";
  const seen = incident.acknowledged_by ? `; seen by ${incident.acknowledged_by}` : "";
  const why = incident.reason ? `: ${incident.reason}` : "";
  return `incident ${incident.id}: ${incident.kind}${since}${why}${more}${called}${held}${seen}`;
}

/**
 * The newest losses. What lies far outside touches the edge; what is no number is a gap.
 * @param {unknown[]} told @param {string} name
 */
function sparkline(told, name) {
  const values = told.map((value) => toNumber(value));
  const finite = values.filter((value) => value !== null && Number.isFinite(value)).sort((a, b) => Number(a) - Number(b));
  if (finite.length < 2) return null;
  const low = Number(finite[Math.floor(OUTLYING * (finite.length - 1))]);
  const high = Number(finite[Math.ceil((1 - OUTLYING) * (finite.length - 1))]);
  const y = (/** @type {number} */ value) => {
    const share = high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5;
    return (1 + (1 - share) * (HEIGHT - 2)).toFixed(1);
  };
  const x = (/** @type {number} */ index) => ((index / (values.length - 1)) * WIDTH).toFixed(1);
  let path = "";
  let isDown = false;
  values.forEach((value, index) => {
    const isShown = value !== null && Number.isFinite(value);
    if (isShown) path += `${isDown ? "L" : "M"}${x(index)} ${y(Number(value))}`;
    isDown = isShown;
  });
  const label = `newest losses of ${name}`;
  return makeSvg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", role: "img", "aria-label": label },
    makeSvg("path", { d: path }));
}
