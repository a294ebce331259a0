/** The cards below the curves that have requests of their own: asked for while they are open, no more often than they need. */

import { readCheckpoints, readLog, readMachines } from "./api.js";
import { drawCheckpoints } from "./checkpoints.js";
import { byId } from "./dom.js";
import { drawLog } from "./log_tail.js";
import { drawMachines } from "./machines.js";
import { isOpen } from "./states.js";

const EVERY_MS = 5_000;
const IN_A_HANG_MS = 2_000;
const PHONE = matchMedia("(max-width: 900px)");
const FOLDED = "sentinel-folded";

/** @typedef {"machines" | "checkpoints" | "log"} Card */

const READ = { machines: readMachines, checkpoints: readCheckpoints, log: readLog };
/** @type {Record<Card, string[]>} the details in which each is shown */
const PLACES = { machines: ["ranks-fold", "gpus-fold"], checkpoints: ["checkpoints-fold"], log: ["log-fold"] };

export class Cards {
  #run = "";
  /** @type {Map<Card, number>} when each was asked for */
  #asked = new Map();
  /** @type {Map<Card, any>} */
  #known = new Map();
  #wasSuspected = false;

  /** @param {() => void} onOpen look at once */
  constructor(onOpen) {
    const kept = readFolded();
    for (const fold of folds()) {
      // Who has opened it before this ran meant it.
      fold.open ||= kept[fold.id] ?? (fold.hasAttribute("data-open") && !PHONE.matches);
      fold.addEventListener("toggle", () => { if (fold.open) onOpen(); });
      fold.addEventListener("click", (event) => { if (isSummary(event.target)) requestAnimationFrame(keepFolded); });
    }
  }

  /** @param {string} run */
  begin(run) {
    this.#run = run;
    this.#asked.clear();
    this.#known.clear();
    this.#wasSuspected = false;
  }

  /** What is open and due. A card that cannot be read says so through who calls. @param {any} status @param {any[]} incidents */
  async refresh(status, incidents) {
    const run = this.#run;
    const isHang = status.state === "stalled" || incidents.some((one) => one.kind === "hang" && isOpen(one));
    if (isHang && !this.#wasSuspected) byId("ranks-fold").open = true;  // once: who folds it up again means it
    this.#wasSuspected = isHang;
    document.body.toggleAttribute("data-hang", isHang);  // the ranks stand above the curves then
    const due = /** @type {Card[]} */ (Object.keys(READ)).filter((card) => this.#isDue(card, isHang ? IN_A_HANG_MS : EVERY_MS));
    const answers = await Promise.allSettled(due.map((card) => READ[card](run)));
    if (run !== this.#run) return;
    answers.forEach((answer, at) => {
      if (answer.status === "fulfilled") this.#known.set(due[at], answer.value);
    });
    const broken = answers.find((answer) => answer.status === "rejected");
    if (broken) throw /** @type {PromiseRejectedResult} */ (broken).reason;
  }

  /** @param {(step: number) => void} rollBack @param {{canRollBack: boolean, isBusy: boolean}} may */
  draw(rollBack, may) {
    const machines = this.#known.get("machines");
    const checkpoints = this.#known.get("checkpoints");
    const log = this.#known.get("log");
    if (machines) drawMachines(machines);
    if (checkpoints) drawCheckpoints(checkpoints, rollBack, may);
    if (log) drawLog(log);
  }

  /** The first time for what stands beside the title of a folded card too. @param {Card} card @param {number} everyMs */
  #isDue(card, everyMs) {
    const isShown = PLACES[card].some((id) => byId(id).open);
    const asked = this.#asked.get(card);
    const isDue = asked === undefined ? isShown || card !== "log" : isShown && performance.now() - asked >= everyMs;
    if (isDue) this.#asked.set(card, performance.now());
    return isDue;
  }
}

/** @returns {HTMLDetailsElement[]} */
function folds() {
  return [...document.querySelectorAll("details.fold")].map((element) => /** @type {HTMLDetailsElement} */ (element));
}

/** Of a card: a person folds it up, or opens it. @param {EventTarget | null} target */
const isSummary = (target) => target instanceof Element && target.closest("summary") !== null;

function keepFolded() {
  sessionStorage.setItem(FOLDED, JSON.stringify(Object.fromEntries(folds().map((fold) => [fold.id, fold.open]))));
}

/** @returns {Record<string, boolean>} */
function readFolded() {
  try {
    return JSON.parse(sessionStorage.getItem(FOLDED) ?? "{}") ?? {};
  } catch {
    return {};
  }
}
