/** The page: asks the server in rounds, hands each answer to what draws it, and says so when answers stop coming. */

import { Corner } from "./access.js";
import { Actions, meant } from "./actions.js";
import { readIncidents, readLedger, readLineage, readRuns, readStatus, Refused, Unreachable } from "./api.js";
import { drawBanner } from "./banner.js";
import { Cards } from "./cards.js";
import { Connection } from "./connection.js";
import { Curves } from "./curves.js";
import { byId } from "./dom.js";
import { drawDetectors } from "./detectors.js";
import { Events } from "./events.js";
import { drawFleet } from "./fleet.js";
import { drawHeader } from "./header.js";
import { drawIncidents } from "./incidents.js";
import { goTo, listen } from "./keyboard.js";
import { drawLedger } from "./ledger.js";
import { drawLineage } from "./lineage.js";
import { Pace } from "./pace.js";
import { directoryOfAddress, drawRuns, isAddressOfAll, runOfAddress } from "./runs.js";
import { isEnded } from "./states.js";

const RUNS_EVERY_MS = 5_000;
const LEDGER_EVERY_MS = 5_000;
const UNAUTHORIZED = 401;
const NOT_FOUND = 404;

const events = new Events();
const curves = new Curves();
const connection = new Connection(() => pace.now());
const actions = new Actions(() => { drawAll(); pace.now(); });
const cards = new Cards(() => pace.now());
const corner = new Corner(() => { drawAll(); pace.now(); });

/** What the newest answers said of the run that is shown. */
const known = {
  run: "", missing: "", canAct: false, leftOut: 0,
  runsMs: -Infinity, ledgerMs: -Infinity, seq: -1,
  /** @type {any[]} */ runs: [],
  address: "",  // by which the run that is shown was found
  /** @type {any} */ status: null,
  /** @type {any[]} */ incidents: [],
  /** @type {any[]} */ lineage: [],
  /** @type {any} */ ledger: null,
};

const pace = new Pace(round);

/** Everything once. What fails is told and leaves the rest alone; whether the server answered at all. */
async function round() {
  try {
    await lookAtRuns();
    if (known.run) await lookAtRun(known.run);
    connection.heard();
    return true;
  } catch (error) {
    return failed(error);
  } finally {
    drawAll();
  }
}

async function lookAtRuns() {
  if (performance.now() - known.runsMs > RUNS_EVERY_MS || !known.run) {
    const answer = await readRuns(directoryOfAddress());
    known.runs = answer.runs;
    known.leftOut = answer.left_out ?? 0;
    known.canAct = answer.can_act;
    known.runsMs = performance.now();
  }
  choose(runOfAddress(known.runs));
  curves.offer(known.runs.map((one) => one.name));
}

/**
 * Which run is shown. One that is shown and not listed any more stays: never another one, with its buttons, in its place. A name
 * that nobody knows is said to be none. Where several runs are and none is named, all are shown.
 * @param {string} wanted
 */
function choose(wanted) {
  known.missing = "";
  if (wanted) {
    const isListed = known.runs.some((one) => one.name === wanted);
    if (!isListed && known.run && (wanted === known.run || location.hash === known.address)) return;
    known.address = location.hash;
    if (isListed) return begin(wanted);
    known.missing = wanted;
    return begin("");
  }
  if (known.runs.length === 1 && (isAddressOfAll() || !known.run)) return known.run ? undefined : begin(known.runs[0].name);
  if (isAddressOfAll() || !known.run) begin("");
}

/** Another run than before; empty: none, but all of them. @param {string} run */
function begin(run) {
  if (run === known.run) return;
  Object.assign(known, { run, status: null, incidents: [], lineage: [], ledger: null, ledgerMs: -Infinity, seq: -1 });
  events.begin(run);
  cards.begin(run);
  curves.begin(run);
}

/** @param {string} run */
async function lookAtRun(run) {
  const status = await readStatus(run);
  if (run !== known.run) return;
  known.status = status;
  const isNew = status.seq !== known.seq;
  const isLedgerDue = isNew || performance.now() - known.ledgerMs > LEDGER_EVERY_MS;
  const parts = await Promise.allSettled([
    curves.refresh(),
    isNew ? events.refresh(status.seq) : null,
    isNew ? readIncidents(run) : null,
    isNew ? readLineage(run) : null,
    isLedgerDue ? readLedger(run) : null,
    cards.refresh(status, known.incidents),
  ]);
  if (run !== known.run) return;
  const [, told, incidents, lineage, ledger] = parts;
  known.incidents = valueOf(incidents) ?? known.incidents;
  known.lineage = valueOf(lineage) ?? known.lineage;
  known.ledger = valueOf(ledger) ?? known.ledger;
  if (valueOf(ledger)) known.ledgerMs = performance.now();
  if ([told, incidents, lineage].every((part) => part.status === "fulfilled")) known.seq = status.seq;
  const broken = parts.find((part) => part.status === "rejected");
  if (broken) throw /** @type {PromiseRejectedResult} */ (broken).reason;
}

/** @param {PromiseSettledResult<any>} part */
function valueOf(part) {
  return part.status === "fulfilled" ? part.value : null;
}

/** @param {unknown} error */
function failed(error) {
  if (error instanceof Refused && error.status === UNAUTHORIZED) {
    connection.lost(error.message, true);
    void corner.needed(error.message);
    return false;
  }
  if (error instanceof Refused && error.status === NOT_FOUND) known.runsMs = -Infinity;
  const isExpected = error instanceof Refused || error instanceof Unreachable;
  connection.lost(isExpected ? error.message : `this page stumbled: ${String(error)}`, !(error instanceof Unreachable));
  if (!isExpected) console.error(error);
  return false;
}

/** Incidents whose page is open. @returns {Set<number>} */
function paged() {
  return new Set((known.status?.pages ?? []).map((/** @type {any} */ page) => page.incident));
}

function drawAll() {
  const { run, status, canAct } = known;
  drawRuns(known.runs, run);
  corner.draw(canAct);
  const isFleet = !run && Number.isFinite(known.runsMs);
  document.body.dataset.view = isFleet ? "fleet" : "run";
  byId("fleet").hidden = !isFleet;
  if (isFleet) {
    drawFleet(known.runs, known.missing, known.leftOut);
    document.title = `${known.runs.some((one) => one.urgency === 0) ? "● " : ""}runs · Sentinel`;
    return;
  }
  if (!status) return;
  /** @param {string} verb @param {number | null} [incident] */
  const isBusy = (verb, incident = null) => actions.isBusy(run, verb, incident);
  drawHeader(status, (verb) => void actions.act(run, verb, null, {}, known.status), { canAct, isBusy });
  const answer = (/** @type {string} */ verb, /** @type {any} */ incident) =>
    void actions.act(run, verb, incident, meant(verb, incident));
  drawBanner(status, known.incidents, paged(), answer, { canAct, isBusy });
  drawIncidents(run, known.incidents, events, paged());
  drawLineage(known.lineage, status.step);
  if (known.ledger) drawLedger(known.ledger);
  drawDetectors(status.detector_rows ?? []);
  const canRollBack = canAct && status.supervisor === "alive" && !isEnded(status.state);
  const rollBack = (/** @type {number} */ step) => void actions.act(run, "rollback", null, { to_step: step }, known.status);
  cards.draw(rollBack, { canRollBack, isBusy: isBusy("rollback") });
  events.draw();
  curves.mark(known.incidents);
}

addEventListener("hashchange", () => pace.now());
listen({
  b: ["what waits for a person", () => goTo("banner")],
  c: ["curves", () => goTo("curves")],
  i: ["incidents", () => goTo("incidents")],
  e: ["events", () => goTo("events")],
  r: ["ranks", () => goTo("ranks")],
  k: ["checkpoints", () => goTo("checkpoints")],
  o: ["log", () => goTo("log")],
  t: ["attempts", () => goTo("lineage")],
  g: ["where the time went", () => goTo("ledger")],
  d: ["how the detectors stand", () => goTo("detectors")],
  l: ["logarithmic scale", () => curves.toggleLog()],
  z: ["all steps again", () => curves.zoom(null)],
  f: ["freeze the list of events", () => events.toggleFrozen()],
});
pace.now();

export { curves };  // for whoever looks behind the page: its tests, a console
