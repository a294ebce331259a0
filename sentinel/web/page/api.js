/** The server's API: what is asked, within a deadline, and what comes back. A failure is one of two errors with a sentence. */

import { storedToken, storedWho } from "./token.js";

const DEADLINE_MS = 8_000;
const WORDS_MAX = 600;

/** @typedef {{method: string, body?: string, headers: Record<string, string>}} Asked */

/** The server answered, and the answer is no. */
export class Refused extends Error {
  /** @param {number} status @param {string} words */
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

/** No answer that could be read came in time. */
export class Unreachable extends Error {}

/** @param {string} run */
const at = (run) => `/api/runs/${encodeURIComponent(run)}`;

/** @param {string} [directory] of a run that is to be among them, however old it is */
export const readRuns = (directory = "") =>
  read(directory ? `/api/runs?${new URLSearchParams({ run: directory })}` : "/api/runs");
/** @param {string} run */
export const readStatus = (run) => read(at(run));
/** @param {string} run */
export const readIncidents = (run) => read(`${at(run)}/incidents`);
/** @param {string} run @param {number} since */
export const readEvents = (run, since) => read(`${at(run)}/events?${new URLSearchParams({ since: String(since) })}`);
/** The curves that are shown until a person chooses others. */
export const readShownCurves = () => read("/api/curves");
/** @param {string} run */
export const readMetricNames = (run) => read(`${at(run)}/metrics`);
/** @param {string} run */
export const readLineage = (run) => read(`${at(run)}/lineage`);
/** @param {string} run */
export const readLedger = (run) => read(`${at(run)}/ledger`);

/** Ranks and GPUs. @param {string} run */
export const readMachines = (run) => read(`${at(run)}/machines`);
/** @param {string} run */
export const readCheckpoints = (run) => read(`${at(run)}/checkpoints`);
/** The ends of the logs. @param {string} run */
export const readLog = (run) => read(`${at(run)}/log`);

/**
 * `view`: the steps looked at and the scale, for which the server says how far it reaches.
 * @param {string} run @param {string[]} metrics @param {string} cursor empty: everything @param {Record<string, string>} [view]
 */
export function readCurves(run, metrics, cursor, view = {}) {
  const asked = new URLSearchParams({ metrics: metrics.join(","), ...view });
  if (cursor) asked.set("since", cursor);
  return read(`${at(run)}/curves?${asked}`);
}

/** @param {string} run @param {number} incident */
export const reportPath = (run, incident) => `/runs/${encodeURIComponent(run)}/incidents/${incident}/report`;

/** The report's HTML. @param {string} run @param {number} incident @returns {Promise<string>} */
export async function readReport(run, incident) {
  const [response, text] = await answered(reportPath(run, incident), { method: "GET", headers: {} });
  if (!response.ok) throw new Refused(response.status, refusalWords(response, parsed(text)));
  return text;
}

/** Whether who shows no token gets it, such as a tab of its own. @param {string} run @param {number} incident */
export async function isReportOpen(run, incident) {
  const [response] = await answered(reportPath(run, incident), { method: "GET", headers: {} }, "");
  return response.ok;
}

/**
 * Asks the supervisor for something. `verb`: acknowledge, approve, deny, resolve (of an incident); pause, resume, hold, rollback,
 * stop (of the run).
 * @param {string} run @param {string} verb @param {number | null} incident @param {Record<string, unknown>} [fields]
 * @returns {Promise<{granted: boolean | null, words: string}>} granted null: asked, and not answered yet
 */
export function ask(run, verb, incident, fields = {}) {
  const path = incident === null ? `${at(run)}/${verb}` : `${at(run)}/incidents/${incident}/${verb}`;
  const headers = { "Content-Type": "application/json", ...whoHeader() };
  return call(path, { method: "POST", body: JSON.stringify(fields), headers });
}

/** @param {string} path */
function read(path) {
  return call(path, { method: "GET", headers: {} });
}

/** @param {string} path @param {Asked} asked @returns {Promise<any>} */
async function call(path, asked) {
  const [response, text] = await answered(path, asked);
  const answer = parsed(text);
  if (!response.ok) throw new Refused(response.status, refusalWords(response, answer));
  if (answer === undefined) throw new Unreachable(`the answer to ${path.split("?")[0]} is not JSON`);
  return answer;
}

/** @param {string} path @param {Asked} asked @param {string} [token] @returns {Promise<[Response, string]>} */
async function answered(path, asked, token = storedToken()) {
  const headers = token ? { ...asked.headers, Authorization: `Bearer ${token}` } : asked.headers;
  const signal = AbortSignal.timeout(DEADLINE_MS);
  try {
    const response = await fetch(path, { ...asked, headers, cache: "no-store", credentials: "omit", redirect: "error", signal });
    return [response, await response.text()];
  } catch (error) {
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    throw new Unreachable(isLate ? `no answer within ${DEADLINE_MS / 1000} s` : "the server cannot be reached");
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @param {Response} response @param {any} answer */
function refusalWords(response, answer) {
  const said = answer?.words ?? answer?.error;
  if (typeof said === "string" && said) return said.slice(0, WORDS_MAX);
  return `the server answered ${response.status} ${response.statusText}`.trim();
}

/** A header holds bytes, so the name travels as the bytes of its UTF-8. @returns {Record<string, string>} */
function whoHeader() {
  const who = storedWho().trim();
  return who ? { "X-Sentinel-Who": String.fromCharCode(...new TextEncoder().encode(who)) } : {};
}
