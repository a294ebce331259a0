/** The words for how a run, an incident or a try stands, and the tone each is shown in. A colour never speaks alone. */

/** @type {Record<string, string>} */
const RUN_TONES = {
  training: "good", finished: "good", observing: "good", starting: "plain", probation: "warn", recovering: "warn", paused: "warn",
  unknown: "warn", stalled: "warn", unseen: "warn", stopped: "warn", suspended: "warn", unobserved: "warn",
  held: "bad", failed: "bad",
};
/** @type {Record<string, string>} */
const INCIDENT_TONES = { open: "bad", probation: "warn", recovered: "good", exhausted: "bad", unknown: "warn" };
/** @type {Record<string, string>} */
const TRY_TONES = { worked: "good", failed: "bad", pending: "warn", paged: "warn", denied: "warn", unknown: "warn" };

/** @param {string} state */
export const runTone = (state) => RUN_TONES[state] ?? "plain";
/** @param {string} state */
export const incidentTone = (state) => INCIDENT_TONES[state] ?? "plain";
/** @param {string} outcome */
export const tryTone = (outcome) => TRY_TONES[outcome] ?? "plain";

/** @param {any} incident */
export const isOpen = (incident) => incident.state === "open" || incident.state === "probation";

const ENDED = new Set(["finished", "failed", "stopped", "suspended", "unobserved"]);

/**
 * How a run stands is what its supervisor says; where none is there to say it, what the last one said.
 * @param {{state: string, supervisor: string, trouble?: string}} run
 */
export const standWords = (run) => (isSaidNow(run) ? run.state : `last seen ${run.state}`);

/** Nothing that nobody says now is green. @param {{state: string, supervisor: string, trouble?: string}} run */
export const standTone = (run) => (isSaidNow(run) || runTone(run.state) === "bad" ? runTone(run.state) : "warn");

/** @param {{state: string, supervisor: string, trouble?: string}} run */
const isSaidNow = (run) => isEnded(run.state) || run.state === "unknown" || (run.supervisor === "alive" && !run.trouble);

/** Nothing more will be trained by itself. @param {string} state */
export const isEnded = (state) => ENDED.has(state);

const CONDITIONS = new Set(["then", "until", "approval"]);  // keys of a rung that say when, not what

/** What a rung does: "rollback + skip". @param {any} remedy */
export const rungWords = (remedy) => remedy.words.filter((/** @type {string} */ word) => !CONDITIONS.has(word)).join(" + ");
