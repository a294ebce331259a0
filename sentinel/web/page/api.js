/** The server's API: what is asked, within a deadline, and what comes back. Every failure is one of two errors with a sentence. */

import { storedToken, storedWho } from "./token.js";

const DEADLINE_MS = 8_000;
const WORDS_MAX = 600;

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

export const readRuns = () => read("/api/runs");
/** @param {string} run */
export const readStatus = (run) => read(at(run));
/** @param {string} run */
export const readIncidents = (run) => read(`${at(run)}/incidents`);
/** @param {string} run @param {number} since */
export const readEvents = (run, since) => read(`${at(run)}/events?${new URLSearchParams({ since: String(since) })}`);
/** @param {string} run */
export const readMetricNames = (run) => read(`${at(run)}/metrics`);
/** @param {string} run */
export const readLineage = (run) => read(`${at(run)}/lineage`);
/** @param {string} run */
export const readLedger = (run) => read(`${at(run)}/ledger`);

/** @param {string} run @param {string[]} metrics @param {string} cursor empty: everything */
export function readCurves(run, metrics, cursor) {
  const asked = new URLSearchParams({ metrics: metrics.join(",") });
  if (cursor) asked.set("since", cursor);
  return read(`${at(run)}/curves?${asked}`);
}

/** @param {string} run @param {number} incident */
export const reportPath = (run, incident) => `/runs/${encodeURIComponent(run)}/incidents/${incident}/report`;

/**
 * Asks the supervisor for something. `verb`: acknowledge, approve, deny, resolve (of an incident), pause, resume (of the run).
 * @param {string} run @param {string} verb @param {number | null} incident
 * @returns {Promise<{granted: boolean, words: string}>}
 */
export function ask(run, verb, incident) {
  const path = incident === null ? `${at(run)}/${verb}` : `${at(run)}/incidents/${incident}/${verb}`;
  return call(path, { method: "POST", body: "{}", headers: { "Content-Type": "application/json", ...whoHeader() } });
}

/** @param {string} path */
function read(path) {
  return call(path, { method: "GET", headers: {} });
}

/** @param {string} path @param {{method: string, body?: string, headers: Record<string, string>}} asked @returns {Promise<any>} */
async function call(path, asked) {
  const token = storedToken();
  const headers = token ? { ...asked.headers, Authorization: `Bearer ${token}` } : asked.headers;
  let response;
  let text;
  try {
    response = await fetch(path, {
      ...asked, headers, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(DEADLINE_MS),
    });
    text = await response.text();
  } catch (error) {
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    throw new Unreachable(isLate ? `no answer within ${DEADLINE_MS / 1000} s` : "the server cannot be reached");
  }
  const answer = parsed(text);
  if (!response.ok) throw new Refused(response.status, refusalWords(response, answer));
  if (answer === undefined) throw new Unreachable(`the answer to ${path.split("?")[0]} is not JSON`);
  return answer;
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
  return typeof said === "string" && said ? said.slice(0, WORDS_MAX) : `the server answered ${response.status} ${response.statusText}`.trim();
}

/** A header holds plain letters only. @returns {Record<string, string>} */
function whoHeader() {
  const who = storedWho().replace(/[^\x20-\x7e]/g, "?").trim();
  return who ? { "X-Sentinel-Who": who } : {};
}
