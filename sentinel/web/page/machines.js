/** The ranks, each as it beat last, and the supervisor's GPUs. A silence has a colour only while a hang is suspected. */

import { byId, make, redraw } from "./dom.js";
import { countWords, stepWords } from "./numbers.js";
import { spanWords } from "./times.js";

const GIB = 1024 ** 3;

/** @param {any} answer of /machines */
export function drawMachines({ ranks, gpus }) {
  redraw(byId("ranks-head"), rankHead(ranks), () => [rankHead(ranks)]);
  redraw(byId("ranks-body"), ranks, () => [
    ranks.suspected && make("p", { class: "warn words" },
      make("strong", {}, ranks.is_believed ? "A hang: " : "A hang is suspected: "), ranks.suspected),
    ranks.count ? rankTable(ranks) : quiet("No rank has beaten yet."),
    ranks.count > ranks.ranks.length && quiet(`${countWords(ranks.count - ranks.ranks.length, "more rank")}.`),
  ]);
  redraw(byId("gpus-head"), gpuHead(gpus), () => [gpuHead(gpus)]);
  redraw(byId("gpus-body"), gpus, () => [
    isTold(gpus) && faultWords(gpus.fault),
    gpus.missing && quiet(`None is seen: ${gpus.missing}.`),
    gpus.gpus.length > 0 && gpuTable(gpus),
  ]);
}

/** @param {string} words */
const quiet = (words) => make("p", { class: "quiet" }, words);

/** Where no GPU is seen, that nothing is known of faults goes without saying. @param {any} gpus */
const isTold = ({ fault, missing }) => fault && (fault.verdict === "breached" || (fault.verdict === "unknown" && !missing));

/** What the detector of GPU faults says, with the Xids. @param {any} fault */
function faultWords({ verdict, reason }) {
  return make("p", { class: verdict === "breached" ? "bad words" : "quiet" }, `${verdict}: ${reason}`);
}

/** What stands beside the title, also of a card that is folded up. @param {any} ranks */
function rankHead(ranks) {
  if (!ranks.count) return "none yet";
  const [first, last] = ranks.steps;
  const steps = first === last ? `step ${stepWords(first)}` : `steps ${stepWords(first)} to ${stepWords(last)}`;
  const phases = Object.entries(ranks.phases).map(([phase, count]) => `${count} ${phase}`).join(", ");
  return ranks.is_over ? `${ranks.count}, ended, ${steps}` : `${ranks.count}: ${phases}; ${steps}`;
}

/** @param {any} ranks */
function rankTable(ranks) {
  return table("ranks", ["rank", "last beat", "phase", "step", "host"], ranks.ranks.map((/** @type {any} */ seen) =>
    make("tr", { class: seen.tone },
      make("th", { scope: "row" }, String(seen.rank), seen.blamed && make("span", { class: "chip small bad" }, "blamed")),
      make("td", {}, ranks.is_over ? "" : beatWords(seen)),
      make("td", {}, seen.phase),
      make("td", {}, stepWords(seen.step)),
      make("td", {}, seen.host))));
}

/** @param {any} seen */
function beatWords({ tone, silent_s: silentS }) {
  return tone ? `silent for ${spanWords(silentS)}` : `${spanWords(silentS)} ago`;
}

/** @param {any} gpus */
function gpuHead({ gpus, missing }) {
  if (!gpus.length) return missing ? "none seen" : "";
  const hot = gpus.flatMap((/** @type {any} */ gpu) => (gpu.temperature_c === null ? [] : [gpu.temperature_c]));
  const ill = gpus.filter((/** @type {any} */ gpu) => gpu.troubles.length).length;
  const words = [String(gpus.length), hot.length > 0 && `up to ${Math.max(...hot)} °C`, ill > 0 && `${ill} in trouble`];
  return words.filter(Boolean).join(", ");
}

/** @param {any} told */
function gpuTable({ gpus, age_s: ageS }) {
  return make("div", {},
    table("GPUs", ["GPU", "name", "temperature", "memory", "busy", "power", "what is wrong"], gpus.map(gpuRow)),
    make("p", { class: "quiet" }, `On the supervisor's machine, ${spanWords(ageS)} ago.`));
}

/** What the driver does not tell stays empty. @param {any} gpu */
function gpuRow(gpu) {
  const memory = gpu.memory_total_bytes && gpu.memory_used_bytes !== null
    ? `${(gpu.memory_used_bytes / GIB).toFixed(1)} of ${(gpu.memory_total_bytes / GIB).toFixed(1)} GiB` : "";
  return make("tr", { class: gpu.lost ? "bad" : gpu.troubles.length ? "warn" : "" },
    make("th", { scope: "row" }, String(gpu.index)),
    make("td", {}, gpu.name),
    make("td", {}, gpu.temperature_c === null ? "" : `${gpu.temperature_c} °C`),
    make("td", {}, memory),
    make("td", {}, gpu.busy_percent === null ? "" : `${gpu.busy_percent} %`),
    make("td", {}, gpu.power_mw === null ? "" : `${Math.round(gpu.power_mw / 1000)} W`),
    make("td", {}, gpu.troubles.join("; ")));
}

/**
 * A table that scrolls in its own frame, reached by the keyboard.
 * @param {string} name @param {string[]} heads @param {Node[]} rows
 */
export function table(name, heads, rows) {
  return make("div", { class: "scroll frame", tabindex: "0", role: "region", "aria-label": `Table of ${name}` },
    make("table", { class: "rows" },
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows)));
}
