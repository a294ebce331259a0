/** What waits for a person, above everything else: open incidents, pages, approvals, each with the answers it can be given. */

import { byId, make, redraw } from "./dom.js";
import { stepWords } from "./numbers.js";
import { isEnded, isOpen, rungWords } from "./states.js";

/** @typedef {{canAct: boolean, isBusy: (verb: string, incident: number) => boolean}} May */

/**
 * @param {any} status @param {any[]} incidents @param {Set<number>} paged incidents whose page is open
 * @param {(verb: string, incident: any) => void} act @param {May} may
 */
export function drawBanner(status, incidents, paged, act, may) {
  const { needs, supervisor } = status;
  /** @type {Map<number, any>} */
  const standing = new Map((status.standing ?? []).map((/** @type {any} */ one) => [one.incident, one]));
  const waiting = incidents.filter((incident) => isOpen(incident) || paged.has(incident.id)).map((incident) =>
    isEnded(status.state) ? { ...incident, awaits_approval: null } : incident);  // nobody can answer it any more
  waiting.sort((a, b) => urgency(b, paged) - urgency(a, paged) || b.id - a.id);
  const key = waiting.map((i) => [i, paged.has(i.id), verbsOf(i, paged).map((verb) => may.isBusy(verb, i.id)), may.canAct]);
  redraw(byId("banner"), [needs, key, status.standing, supervisor, status.ended], () => [
    needs && needsCard(needs),
    ...waiting.map((incident) => {
      const said = incident.id === needs?.incident ? null : standing.get(incident.id);
      const who = whoWords(incident, paged.has(incident.id), supervisor);
      const tone = urgency(incident, paged) > 1 ? "bad" : "warn";
      const stands = standing.get(incident.id)?.stands ?? incident.stands;
      const told = { tone, said, who, stands, verbs: verbsOf(incident, paged), isTold: incident.id === needs?.incident };
      return card(incident, told, act, may);
    }),
  ]);
}

/** The commands that answer, and what each does. @param {any[]} answers */
function commands(answers) {
  return answers.length > 0 && make("ol", { class: "commands" }, ...answers.map((one) =>
    make("li", {}, make("code", {}, one.command), make("span", { class: "quiet" }, ` ${one.what}`))));
}

/** What follows without a person, a sentence a line. @param {string[]} lines */
function follows(lines) {
  return lines.length > 0 && make("div", { class: "follows" }, make("b", {}, "Next"),
    make("ul", {}, ...lines.map((line) => make("li", {}, line))));
}

/** The cause, what was tried, what trains now, what follows, what to type: in this order. @param {any} needs */
function needsCard(needs) {
  return make("section", { class: `card ${needs.tone ?? "bad"}`, "aria-label": "What this run needs" },
    make("h2", {}, needs.head),
    make("p", {}, needs.incident === null ? needs.cause
      : make("a", { href: `#incident-${needs.incident}` }, needs.cause)),
    needs.tried && make("p", {}, needs.tried),
    make("p", {}, make("strong", {}, needs.trains)),
    follows(needs.next ?? []),
    commands(needs.answers));
}

/** @param {any} incident @param {Set<number>} paged */
function urgency(incident, paged) {
  if (incident.awaits_approval !== null) return 3;
  return paged.has(incident.id) && !incident.acknowledged_by ? 2 : 1;
}

/** What a person can answer now, what is waited for first. @param {any} incident @param {Set<number>} paged */
function verbsOf(incident, paged) {
  const verbs = incident.awaits_approval !== null ? ["approve", "deny"] : [];
  if (!incident.acknowledged_by) verbs.push("acknowledge");
  if (paged.has(incident.id)) verbs.push("resolve");
  return verbs;
}

/**
 * @typedef {{tone: string, said: any, who: string, stands: string, verbs: string[], isTold: boolean}} Told what is said of it;
 * `stands`: its state in words; `isTold`: the card of the run's needs, above, has the cause and the commands
 */

/** @param {any} incident @param {Told} told @param {(verb: string, incident: any) => void} act @param {May} may */
function card(incident, { tone, said, who, stands, verbs, isTold }, act, may) {
  const { onset_step: onset, detected_step: seen } = incident;
  const since = onset === null ? `at step ${stepWords(seen)}` : `since step ${stepWords(onset)}`;
  return make("section", { class: `card ${tone}`, "aria-label": `Incident ${incident.id}` },
    make("h2", {},
      make("a", { href: `#incident-${incident.id}` }, `Incident ${incident.id}: ${incident.kind}`),
      ` ${since}, ${stands}`),
    !isTold && make("p", {}, incident.reason),
    make("p", {}, make("strong", {}, who)),
    incident.awaits_approval !== null && !said && make("p", {}, make("strong", {}, approvalWords(incident))),
    said ? follows(said.next) : !isTold && incident.verdict && make("p", { class: "quiet" }, incident.verdict),
    may.canAct ? buttons(incident, verbs, act, may) : said && said.answers.length > 0 && answersInATerminal(said.answers),
    ...(incident.notes ?? []).map((/** @type {string} */ note) => make("p", { class: "note" }, note)));
}

/** @param {any[]} answers */
function answersInATerminal(answers) {
  const words = "This server takes no answers (it has no token). In a terminal:";
  return make("div", {}, make("p", { class: "quiet" }, words), commands(answers));
}

/** @param {any} incident @param {boolean} isPaged @param {string} supervisor */
function whoWords(incident, isPaged, supervisor) {
  if (incident.acknowledged_by) return `Acknowledged by ${incident.acknowledged_by}.`;
  if (incident.page?.held) return `A person is to be called, ${incident.page.held}.`;
  if (isPaged) return "A person was paged; nobody has acknowledged.";
  const resolved = incident.page?.resolved ? `${resolvedWords(incident.page)} ` : "";
  if (supervisor === "gone") return `${resolved}Nobody deals with it: the supervisor is gone.`;
  if (supervisor === "stuck") return `${resolved}Nobody deals with it: the supervisor stands still.`;
  if (supervisor === "unknown") return `${resolved}Whether Sentinel deals with it cannot be seen from here.`;
  return resolved ? `${resolved}Sentinel goes on dealing with it.` : "Sentinel is dealing with it; nobody was paged.";
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
