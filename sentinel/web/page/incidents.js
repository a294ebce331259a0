/** The incidents, newest first: what broke, what was tried and how that ended, every decision with its reason. */

import { byId, make, redraw } from "./dom.js";
import { lineItem } from "./events.js";
import { countWords, stepWords } from "./numbers.js";
import { reportLink } from "./report.js";
import { incidentTone, isOpen, rungWords, tryTone } from "./states.js";
import { elapsedWords, localWords, spanWords } from "./times.js";

const SHOWN = 100;

/**
 * @param {string} run @param {any[]} incidents @param {import("./events.js").Events} events
 * @param {Set<number>} paged incidents whose page is open
 */
export function drawIncidents(run, incidents, events, paged) {
  const shown = [...incidents].sort((a, b) => b.id - a.id).slice(0, SHOWN);
  const lines = new Map(shown.map((incident) => [incident.id, events.of(incident.id)]));
  const key = [run, shown, [...paged], events.since, [...lines.values()].map((one) => one.map((line) => line.seq))];
  redraw(byId("incident-list"), key, () =>
    shown.length
      ? shown.map((incident, at) => one(run, incident, lines.get(incident.id) ?? [], events, at === 0, paged))
      : [make("p", { class: "quiet" }, "No incident so far.")]);
}

/**
 * @param {string} run @param {any} incident @param {import("./events.js").Line[]} lines its own
 * @param {import("./events.js").Events} events
 * @param {boolean} isNewest @param {Set<number>} paged
 */
function one(run, incident, lines, events, isNewest, paged) {
  const decisions = events.reachesTo(incident.opened_elapsed_s) ? "every decision" : "the newest decisions; its report has all";
  const id = `incident-${incident.id}`;
  const isShownWhole = isOpen(incident) || paged.has(incident.id) || isNewest;
  return make("details", { class: "incident", id, "data-key": id, open: isShownWhole },
    make("summary", {},
      make("span", { class: "headline" },
        make("b", {}, `#${incident.id} ${incident.kind}`),
        make("span", { class: `chip small ${incidentTone(incident.state)}` }, incident.stands)),
      make("span", { class: "quiet" }, whenWords(incident))),
    make("p", {}, incident.reason),
    incident.verdict && incident.verdict !== incident.reason &&
      make("p", {}, make("b", {}, isOpen(incident) ? "Now: " : "In the end: "), incident.verdict),
    ...ruleWords(incident),
    make("p", { class: "quiet" }, factWords(incident, paged).join(" · ")),
    incident.diagnosis && make("p", {}, make("b", {}, `Diagnosis, ${incident.diagnosis.cause}: `), incident.diagnosis.reason),
    incident.attribution && make("p", {}, make("b", {}, "Samples: "), incident.attribution.reason),
    incident.remedies.length > 0 && tries(incident.remedies),
    lines.length > 0 && make("details", { "data-key": `lines-${incident.id}` },
      make("summary", {}, `${decisions} (${countWords(lines.length, "line")})`),
      make("ol", { class: "lines" }, ...lines.map((line) => lineItem(line)))),
    make("p", {}, reportLink(run, incident.id)));
}

/** What the author of the rule wrote for whoever reads it. A runbook is a link only where it is one. @param {any} incident */
export function ruleWords(incident) {
  const labels = Object.entries(incident.labels ?? {}).map(([name, value]) => `${name}: ${value}`);
  const { runbook } = incident;
  return [
    ...(incident.notes ?? []).map((/** @type {string} */ note) => make("p", { class: "note" }, note)),
    runbook && make("p", {}, "Runbook: ", /^https?:\/\//.test(runbook)
      ? make("a", { href: runbook, rel: "noreferrer noopener", target: "_blank" }, runbook) : make("code", {}, runbook)),
    labels.length > 0 && make("p", { class: "quiet" }, labels.join(" · ")),
  ];
}

/** @param {any} incident */
function whenWords(incident) {
  const seen = `seen at step ${stepWords(incident.detected_step)}`;
  const where = incident.onset_step === null ? seen : `onset step ${stepWords(incident.onset_step)}, ${seen}`;
  const moment = (/** @type {number} */ elapsedS, /** @type {number} */ atS) => `${elapsedWords(elapsedS)} (${localWords(atS)})`;
  const opened = moment(incident.opened_elapsed_s, incident.opened_at_s);
  const isClosed = (incident.closed_elapsed_s ?? null) !== null;
  return `${where} · ${opened}${isClosed ? ` to ${moment(incident.closed_elapsed_s, incident.closed_at_s)}` : ""}`;
}

/** @param {any} incident @param {Set<number>} paged */
function factWords(incident, paged) {
  return [
    incident.severity,
    `seen ${spanWords(incident.time_to_detect_s)} after it showed`,
    incident.time_to_recover_s !== null && `new ground after ${spanWords(incident.time_to_recover_s)}`,
    lostWords(incident),
    incident.cost_words && `cost ${incident.cost_words}`,
    incident.blamed_rank !== null && `rank ${incident.blamed_rank}`,
    incident.blamed_node && `node ${incident.blamed_node}`,
    incident.page?.held,
    incident.pages.length > 0 && (paged.has(incident.id) ? "page open" : "a person was paged"),
    incident.acknowledged_by && `acknowledged by ${incident.acknowledged_by}`,
  ].filter(Boolean);
}

/** Where rows are seldom, the steps behind the newest one are not known. @param {any} incident */
function lostWords(incident) {
  const least = incident.steps_lost ?? 0;
  const most = incident.steps_lost_at_most === undefined ? least : incident.steps_lost_at_most;
  if (most === 0) return null;
  if (most === null) return least > 0 ? `at least ${countWords(least, "step")} lost` : "how many steps were lost is not known";
  if (most === least) return `${countWords(least, "step")} lost`;
  return least > 0 ? `${least} to ${countWords(most, "step")} lost` : `up to ${countWords(most, "step")} lost`;
}

/** @param {any[]} remedies */
function tries(remedies) {
  return make("ol", { class: "tries" }, ...remedies.map((remedy) =>
    make("li", {},
      make("b", {}, `Rung ${remedy.rung + 1}: ${rungWords(remedy)}`),
      " ", make("span", { class: `chip small ${tryTone(remedy.outcome)}` }, remedy.outcome.replace("_", " ")),
      remedy.attempt !== null && make("span", { class: "quiet" }, ` attempt ${remedy.attempt}`),
      make("div", {}, remedy.chosen),
      remedy.expected && make("div", { class: "quiet" }, `expected: ${remedy.expected}`),
      remedy.proofs?.length > 0 && make("div", { class: "quiet" }, `proof: ${remedy.proofs.map((one) => one.words).join("; ")}`),
      remedy.verdict && remedy.verdict !== remedy.chosen && make("div", {}, make("b", {}, "so: "), remedy.verdict))));
}
