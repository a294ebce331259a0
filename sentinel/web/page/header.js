/** How the run stands: in one word, above whatever waits for a person, and in a few figures, below it. */

import { costRows } from "./cost.js";
import { byId, make, plainText, redraw } from "./dom.js";
import { percentWords, stepWords } from "./numbers.js";
import { isEnded, standTone, standWords } from "./states.js";
import { localWords, spanWords } from "./times.js";

/** @type {Record<string, [string, string]>} what can be asked for in a state, and what its button says */
const ANSWERS = { paused: ["resume", "resume remedies"], held: ["resume", "resume training"] };

/**
 * @param {any} status
 * @param {(verb: string) => void} act
 * @param {{canAct: boolean, isBusy: (verb: string) => boolean}} may
 */
export function drawHeader(status, act, may) {
  byId("run-name").textContent = plainText(status.run);
  document.title = titleOf(status);
  drawTrouble(status);
  const reason = status.needs ? "" : status.reason;  // the banner, right below, says the cause
  const asked = status.nothing_asked ?? "";
  redraw(byId("figures"), [shown(status), reason, asked], () => [
    make("p", { class: "state" },
      make("strong", { class: `chip ${standTone(status)}` }, standWords(status)), reason && make("span", {}, reason),
      asked && make("span", { class: "quiet" }, asked)),
    progress(status),
  ]);
  const busy = ["pause", "resume", "hold", "stop"].map(may.isBusy);
  redraw(byId("numbers"), [shown(status), busy, may.canAct], () => [
    make("dl", { class: "figures" }, ...figures(status)),
    may.canAct && controls(status, act, may.isBusy),
  ]);
}

/** What the header is drawn from: the clock moves by whole seconds only. @param {any} status */
function shown(status) {
  const { state, reason, step, total_steps: total, attempt, goodput, supervisor, attempt_alive: isAlive } = status;
  const incidents = incidentsWords(status);
  const waiting = standbyWords(status.standbys);
  const stands = [state, standWords(status), reason, step, total, attempt, goodput, supervisor];
  return [...stands, waiting, isAlive, incidents, Math.floor(status.elapsed_s)];
}

/** @param {any} status */
function titleOf(status) {
  const isPaged = status.pages.some((/** @type {any} */ page) => !page.acknowledged_by);
  return `${isPaged ? "● " : ""}${standWords(status)} · ${plainText(status.run)} · Sentinel`;
}

/** @param {any} status */
function progress(status) {
  const { step, total_steps: total } = status;
  const words = total ? `step ${stepWords(step)} of ${stepWords(total)}` : `step ${stepWords(step)}`;
  if (!total || step === null) return make("p", { class: "progress" }, make("span", {}, words));
  const share = Math.min(1, step / total);
  const bar = make("progress", { max: 1, value: share, "aria-label": words });
  return make("p", { class: "progress" }, make("span", {}, words), bar, make("span", {}, percentWords(share)));
}

const RANKS_SHOWN = 8;

/** Who has been silent for how long, the longest first; while the next step is overdue. @param {any[]} ranks */
function ranksWords(ranks) {
  const first = [...ranks].sort((a, b) => b.silent_s - a.silent_s).slice(0, RANKS_SHOWN);
  const where = (/** @type {any} */ seen) => `(step ${seen.step}, ${seen.phase})`;
  const words = first.map((seen) => `rank ${seen.rank} silent for ${spanWords(seen.silent_s)} ${where(seen)}`);
  return words.join(", ") + (ranks.length > first.length ? `, and ${ranks.length - first.length} more` : "");
}

/** @param {any} status */
function figures(status) {
  const rows = [
    ["time", timeWords(status)],
    ["goodput", percentWords(status.goodput)],
    ...(status.under_way ? [["now", `${status.under_way.words} (${status.under_way.number} of ${status.under_way.of})`]] : []),
    ...costRows(status),
    ["attempt", status.attempt ?? "none"],
    ["incidents", incidentsWords(status)],
    ["supervisor", supervisorWords(status)],
    ...(status.standbys.length ? [["standby", standbyWords(status.standbys)]] : []),
    ...(status.ranks.length ? [["ranks", ranksWords(status.ranks)]] : []),
    ["policy", policyWords(status)],
  ];
  return rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))));
}

/** What broke last, for who finds that everything goes well again. @param {any} status */
function incidentsWords(status) {
  const newest = status.newest_incident;
  return newest ? `${status.incidents}; the newest, ${newest.kind}: ${newest.stands}` : status.incidents;
}

/** Which is in force, and by whom, where it is not the one the run was started with. @param {any} status */
function policyWords(status) {
  const mode = status.observe_only ? ", observe only" : "";
  const by = status.policy_applied ? `, applied by ${status.policy_applied.by}` : "";
  return `${status.policy}${mode}${by}`;
}

/** Since it began; of a run that has ended, what it took and when. @param {any} status */
function timeWords(status) {
  const began = localWords(status.began_at_s);
  if (!isEnded(status.state)) return `${spanWords(Math.floor(status.elapsed_s))} since ${began}`;
  const ended = localWords(status.ended_at_s);
  return `${spanWords(status.wall_s)} from ${began}${ended && ` to ${ended}`}`;
}

/** @param {any} status */
function supervisorWords(status) {
  if (status.supervisor === "alive") return "watching";
  if (isEnded(status.state)) return "gone: the run has ended";
  return status.supervisor === "stuck" ? "stands still" : status.supervisor;  // what that means says the card above
}

/** Who waits to take its place, and from where. @param {any[]} standbys */
function standbyWords(standbys) {
  const heard = (/** @type {any} */ one) => (one.silent_s === null ? "" : ", not heard of lately");
  return standbys.map((one) => `${one.host}${heard(one)}${one.lacks && `: ${one.lacks}`}`).join("; ");
}

/** @param {any} status @param {(verb: string) => void} act @param {(verb: string) => boolean} isBusy */
function controls(status, act, isBusy) {
  if (status.supervisor !== "alive" || isEnded(status.state)) return null;
  const [verb, words] = ANSWERS[status.state] ?? ["pause", "pause remedies"];
  const button = (/** @type {string} */ asked, /** @type {string} */ said) =>
    make("button", { type: "button", "data-key": asked, disabled: isBusy(asked), onclick: () => act(asked) }, said);
  return make("div", { class: "buttons" },
    button(verb, words),
    make("details", { class: "menu more", "data-key": "more" },
      make("summary", {}, "more"),
      make("div", { class: "choices buttons" },
        status.state !== "held" && button("hold", "hold training"),
        button("stop", "stop the run"),
        make("a", { href: "#checkpoints" }, "roll back to a checkpoint"))));
}

/** @type {Record<string, string>} where more is told of it */
const TOLD_AT = { disk: "#detectors-fold", hardware: "#gpus-fold" };

/**
 * Disks and hardware, before anything else: on a phone their cards are folded. The only card of the page says it itself.
 * @param {any} status
 */
function threats(status) {
  const isFirst = !status.needs && status.standing.length === 1;
  const told = (/** @type {any} */ one) => isFirst && one.incident === status.standing[0].incident;
  return (status.machine_warnings ?? []).filter((/** @type {any} */ one) => !told(one));
}

/** @param {any} one a warning */
function threatLine({ about, words, incident }) {
  return make("p", {}, make("a", { href: incident === null ? TOLD_AT[about] : `#incident-${incident}` }, words));
}

/** @param {any} status */
function drawTrouble(status) {
  const blind = Object.entries(status.blind ?? {}).map(([source, reason]) => `${source} is blind: ${reason}`);
  const old = status.trouble && `This is an older sight than it should be: ${status.trouble}`;
  const lines = [old, status.warning !== status.trouble && status.warning, ...blind].filter(Boolean);
  const told = threats(status);
  byId("trouble").hidden = !lines.length && !told.length;
  redraw(byId("trouble"), [lines, told], () => [...lines.map((line) => make("p", {}, line)), ...told.map(threatLine)]);
}
