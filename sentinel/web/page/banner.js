/** What waits for a person, above everything else: open incidents, pages, approvals, each with the answers it can be given. */

import { byId, make, redraw } from "./dom.js";
import { stepWords } from "./numbers.js";
import { isOpen, rungWords } from "./states.js";

/** @typedef {{canAct: boolean, isBusy: (verb: string, incident: number) => boolean}} May */

/**
 * @param {any} needs what a run that is out of repairs needs, if it is @param {any[]} incidents
 * @param {Set<number>} paged incidents whose page is open
 * @param {(verb: string, incident: any) => void} act @param {May} may
 */
export function drawBanner(needs, incidents, paged, act, may) {
  const waiting = incidents.filter((incident) => isOpen(incident) || paged.has(incident.id));
  waiting.sort((a, b) => urgency(b, paged) - urgency(a, paged) || b.id - a.id);
  const key = waiting.map((i) => [i, paged.has(i.id), verbsOf(i, paged).map((verb) => may.isBusy(verb, i.id)), may.canAct]);
  redraw(byId("banner"), [needs, key], () => [
    needs && needsCard(needs),
    ...waiting.map((incident) => card(incident, paged.has(incident.id), act, may, verbsOf(incident, paged))),
  ]);
}

/** The cause, what trains now, what to type: in this order. @param {any} needs */
function needsCard(needs) {
  const rows = needs.answers.map((/** @type {any} */ one) =>
    make("li", {}, make("code", {}, one.command), make("span", { class: "quiet" }, ` ${one.what}`)));
  return make("section", { class: "card bad", "aria-label": "What this run needs" },
    make("h2", {}, needs.head),
    make("p", {}, needs.incident === null ? needs.cause
      : make("a", { href: `#incident-${needs.incident}` }, needs.cause)),
    make("p", {}, make("strong", {}, needs.trains)),
    rows.length > 0 && make("ol", { class: "commands" }, ...rows));
}

/** @param {any} incident @param {Set<number>} paged */
function urgency(incident, paged) {
  if (incident.awaits_approval !== null) return 3;
  return paged.has(incident.id) && !incident.acknowledged_by ? 2 : 1;
}

/** What a person can answer now. @param {any} incident @param {Set<number>} paged */
function verbsOf(incident, paged) {
  const verbs = incident.acknowledged_by ? [] : ["acknowledge"];
  if (incident.awaits_approval !== null) verbs.push("approve", "deny");
  if (paged.has(incident.id)) verbs.push("resolve");
  return verbs;
}

/**
 * @param {any} incident @param {boolean} isPaged @param {(verb: string, incident: any) => void} act @param {May} may
 * @param {string[]} verbs
 */
function card(incident, isPaged, act, may, verbs) {
  const tone = urgency(incident, new Set(isPaged ? [incident.id] : [])) > 1 ? "bad" : "warn";
  const { onset_step: onset, detected_step: seen } = incident;
  const since = onset === null ? `at step ${stepWords(seen)}` : `since step ${stepWords(onset)}`;
  return make("section", { class: `card ${tone}`, "aria-label": `Incident ${incident.id}` },
    make("h2", {},
      make("a", { href: `#incident-${incident.id}` }, `Incident ${incident.id}: ${incident.kind}`),
      ` ${since}, ${incident.state}`),
    make("p", {}, incident.reason),
    incident.verdict && make("p", { class: "quiet" }, incident.verdict),
    ...(incident.notes ?? []).map((/** @type {string} */ note) => make("p", { class: "note" }, note)),
    make("p", {}, make("strong", {}, whoWords(incident, isPaged))),
    incident.awaits_approval !== null && make("p", {}, approvalWords(incident)),
    may.canAct ? buttons(incident, verbs, act, may) : make("p", { class: "quiet" }, commandWords(incident, verbs)));
}

/** @param {any} incident @param {boolean} isPaged */
function whoWords(incident, isPaged) {
  if (incident.acknowledged_by) return `Acknowledged by ${incident.acknowledged_by}.`;
  if (incident.page?.held) return `A person is to be called, ${incident.page.held}.`;
  if (isPaged) return "A person was paged; nobody has acknowledged.";
  if (incident.page?.resolved) return `${resolvedWords(incident.page)} Sentinel goes on dealing with it.`;
  return "Sentinel is dealing with it; nobody was paged.";
}

/** @param {any} page */
function resolvedWords(page) {
  const by = page.resolved_by ? ` by ${page.resolved_by}` : "";
  return `A person was paged; the page was resolved${by}: ${page.resolved}.`;
}

/** @param {any} incident */
export function approvalWords(incident) {
  const rung = incident.remedies.find((/** @type {any} */ remedy) => remedy.rung === incident.awaits_approval);
  const what = rung ? ` (${rungWords(rung)}: ${rung.chosen})` : "";
  return `Rung ${incident.awaits_approval + 1}${what} waits for approval.`;
}

/** @param {any} incident @param {string[]} verbs @param {(verb: string, incident: any) => void} act @param {May} may */
function buttons(incident, verbs, act, may) {
  return make("p", { class: "buttons" }, ...verbs.map((verb, at) =>
    make("button", {
      type: "button", class: at === 0 ? "main" : "", "data-key": `${verb}-${incident.id}`,
      disabled: may.isBusy(verb, incident.id), "aria-label": `${verb} incident ${incident.id}`,
      onclick: () => act(verb, incident),
    }, verb)));
}

/** @param {any} incident @param {string[]} verbs */
function commandWords(incident, verbs) {
  const commands = verbs.map((verb) => `sentinel ${verb === "acknowledge" ? "ack" : verb} ${incident.id} RUN_DIR`);
  return commands.length ? `This server takes no answers (it has no token). In a terminal: ${commands.join(", ")}` : "";
}
