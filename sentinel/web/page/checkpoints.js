/** The checkpoints, newest first: how far each is trusted, why it is kept, its size and digest; and what the mirror holds. */

import { byId, make, redraw } from "./dom.js";
import { table } from "./machines.js";
import { countWords, stepWords } from "./numbers.js";
import { spanWords } from "./times.js";

const SHOWN = 50;
const DIGEST_CHARS = 12;
const UNITS = /** @type {const} */ ([["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]);
/** @type {Record<string, string>} */
const TONES = { proven: "good", verified: "good", suspect: "warn", damaged: "bad", quarantined: "warn" };
const GONE = new Set(["quarantined", "pruned"]);

/**
 * @param {any} answer of /checkpoints @param {(step: number) => void} rollBack
 * @param {{canRollBack: boolean, isBusy: boolean}} may
 */
export function drawCheckpoints(answer, rollBack, may) {
  const there = answer.checkpoints.filter((/** @type {any} */ one) => one.trust !== "pruned");
  const gone = answer.checkpoints.length - there.length;
  const newest = there.find((/** @type {any} */ one) => !GONE.has(one.trust));
  const head = newest ? `${there.length}, newest of step ${stepWords(newest.step)}: ${newest.trust}` : "none yet";
  redraw(byId("checkpoints-head"), head, () => [head]);
  const minutes = there.map((/** @type {any} */ one) => Math.floor((one.age_s ?? 0) / 60));
  redraw(byId("checkpoints-body"), [{ ...answer, checkpoints: there.map(undated) }, minutes, may], () => [
    mirrorWords(answer.mirror),
    answer.missing && make("p", { class: "warn words" }, `Nothing can be called proven: ${answer.missing}.`),
    there.length ? checkpointTable(there.slice(0, SHOWN), rollBack, may) : quiet("No checkpoint was committed yet."),
    there.length > SHOWN && quiet(`${countWords(there.length - SHOWN, "older one")}: sentinel checkpoints list RUN_DIR`),
    gone > 0 && quiet(`${countWords(gone, "checkpoint")} deleted, as the policy retains.`),
  ]);
}

/** @param {string} words */
const quiet = (words) => make("p", { class: "quiet" }, words);

/** Its age moves by itself. @param {any} checkpoint */
const undated = (checkpoint) => ({ ...checkpoint, age_s: null });

/** @param {any[]} there @param {(step: number) => void} rollBack @param {{canRollBack: boolean, isBusy: boolean}} may */
function checkpointTable(there, rollBack, may) {
  const isRetained = there.some((one) => one.kept);  // where nothing is deleted, nothing is kept for a reason
  const kept = isRetained ? ["kept because"] : [];
  const heads = ["step", ...(may.canRollBack ? ["act"] : []), "trust", "age", "size", "why", ...kept, "digest"];
  return table("checkpoints", heads, there.map((one) =>
    make("tr", {},
      make("th", { scope: "row" }, stepWords(one.step)),
      may.canRollBack && make("td", {}, backButton(one, rollBack, may.isBusy)),
      make("td", {}, make("span", { class: `chip small ${TONES[one.trust] ?? "plain"}` }, one.trust)),
      make("td", {}, spanWords(one.age_s)),
      make("td", {}, sizeWords(one.bytes)),
      make("td", { class: "long" }, one.why),
      isRetained && make("td", { class: "long" }, one.kept ?? ""),
      make("td", {}, one.digest && make("code", { title: one.digest }, shortDigest(one.digest))))));
}

/** @param {string} digest */
const shortDigest = (digest) => digest.replace(/^\w+:/, "").slice(0, DIGEST_CHARS);

/** Only where a run could resume from it. @param {any} one @param {(step: number) => void} rollBack @param {boolean} isBusy */
function backButton(one, rollBack, isBusy) {
  if (GONE.has(one.trust) || one.trust === "damaged") return "";
  return make("button", {
    type: "button", "data-key": `rollback-${one.step}`, disabled: isBusy, "aria-label": `roll back to step ${one.step}`,
    onclick: () => rollBack(one.step),
  }, "roll back");
}

/** @param {any} mirror */
function mirrorWords(mirror) {
  if (!mirror) return quiet("No mirror: these checkpoints are on this run's own disk only.");
  const behind = mirror.behind_s ? `; behind for ${spanWords(mirror.behind_s)}` : "; nothing is due";
  const words = `Mirrored to ${mirror.to}: ${mirror.there || "nothing yet"}${behind}.`;
  return make("p", { class: mirror.error ? "bad words" : "quiet" }, words, mirror.error && ` It fails: ${mirror.error}`);
}

/** @param {number | null} bytes */
function sizeWords(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const unit = UNITS.find(([, size]) => bytes >= size);
  return unit ? `${Number((bytes / unit[1]).toPrecision(3))} ${unit[0]}` : `${bytes} bytes`;
}
