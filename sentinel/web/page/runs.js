/** The list of runs, where the server knows several: how each stands, and which one is shown. */

import { byId, make, redraw } from "./dom.js";
import { countWords, percentWords, stepWords } from "./numbers.js";
import { standTone, standWords } from "./states.js";
import { localWords } from "./times.js";

const HASH = "run=";
const BEGAN = /&began=(\d{1,12})$/;  // in the link of a page: several runs may have one name

/** What leads to a run's page. @param {string} name */
export const addressOf = (name) => `#${HASH}${encodeURIComponent(name)}`;

/** The address asks for the list of all runs. A link to a part of the page does not. */
export const isAddressOfAll = () => ["", "#", "#runs"].includes(location.hash);

/** The run that the address names; empty: none. A link to an incident in the page names none. @param {any[]} runs */
export function runOfAddress(runs) {
  const words = location.hash.slice(1);
  if (!words.startsWith(HASH)) return "";
  const name = decoded(words.slice(HASH.length).replace(BEGAN, ""));
  const began = Number(BEGAN.exec(words)?.[1] ?? NaN);
  if (Number.isNaN(began)) return name;
  const meant = runs.find((run) => run.directory === name && run.began === began);
  return meant?.name ?? `${name}, begun ${localWords(began)}`;
}

/** The directory that the address names, whether or not it is listed; empty: none. */
export function directoryOfAddress() {
  const words = location.hash.slice(1);
  return words.startsWith(HASH) ? decoded(words.slice(HASH.length).replace(BEGAN, "")) : "";
}

/** @param {string} words */
function decoded(words) {
  try {
    return decodeURIComponent(words);
  } catch {
    return "";
  }
}

/** @param {any[]} runs @param {string} current */
export function drawRuns(runs, current) {
  const nav = byId("runs");
  nav.hidden = runs.every((run) => run.name === current);
  redraw(nav, [runs, current], () => [
    make("details", { class: "runs menu", "data-key": "runs" },
      make("summary", {}, `${countWords(runs.length, "run")} `, open(runs)),
      make("ul", {}, make("li", {}, make("a", { href: "#runs", "data-key": "all runs" }, make("b", {}, "all runs, worst first"))),
        ...runs.map((run) => row(run, run.name === current)))),
  ]);
}

/** @param {any[]} runs */
function open(runs) {
  const paged = runs.filter((run) => run.paged).length;
  return paged ? make("span", { class: "chip small bad" }, `${paged} paged`) : null;
}

/** @param {any} run @param {boolean} isCurrent */
function row(run, isCurrent) {
  const steps = run.total_steps ? `step ${stepWords(run.step)} of ${stepWords(run.total_steps)}` : `step ${stepWords(run.step)}`;
  const opened = run.open_incidents ? ` · ${run.open_incidents} open` : "";
  const goodput = run.goodput === null ? "unknown" : percentWords(run.goodput);
  const words = ` ${steps} · goodput ${goodput}${opened} · supervisor ${run.supervisor}`;
  return make("li", {},
    make("a", {
      href: addressOf(run.name), "aria-current": isCurrent ? "page" : null, "data-key": run.name,
    },
      make("b", {}, run.name), " ", make("span", { class: `chip small ${standTone(run)}` }, standWords(run)),
      run.paged && " ", run.paged && make("span", { class: "chip small bad" }, "paged"),
      make("span", { class: "quiet" }, run.place ? `${words} · in ${run.place}` : words)));
}
