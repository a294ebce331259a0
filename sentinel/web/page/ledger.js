/** The goodput ledger: every second since the first launch in one of six accounts, as a bar and as a table. */

import { swatch } from "./curve_bar.js";
import { byId, make, makeSvg, redraw } from "./dom.js";
import { percentWords } from "./numbers.js";
import { spanWords } from "./times.js";

const WIDTH = 640;
const HEIGHT = 18;
const MEANING = new Map([
  ["training", "steps that survive"],
  ["checkpointing", "saves within them"],
  ["replay", "steps trained and thrown away"],
  ["detection", "from a failure until it was seen"],
  ["recovery", "from there until the next attempt's first answer"],
  ["waiting", "start-up, backoff, stopped, held"],
]);

/** @param {{accounts: Record<string, number>, goodput: number, whole_s: number}} ledger */
export function drawLedger(ledger) {
  redraw(byId("accounts"), ledger, () => {
    if (!(ledger.whole_s > 0)) return [make("p", { class: "quiet" }, "Nothing was launched yet.")];
    const words = ` of ${spanWords(ledger.whole_s)} went into steps that survive.`;
    return [make("p", {}, make("b", {}, percentWords(ledger.goodput)), words), bar(ledger), table(ledger)];
  });
}

/** @param {any} ledger */
function bar(ledger) {
  let x = 0;
  const parts = Object.entries(ledger.accounts).map(([name, seconds]) => {
    const width = (Number(seconds) / ledger.whole_s) * WIDTH;
    const place = { class: `account ${known(name)}`, x, y: 0, width, height: HEIGHT };
    const part = makeSvg("rect", place, makeSvg("title", {}, `${name}: ${spanWords(Number(seconds))}`));
    x += width;
    return part;
  });
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "share" };
  return makeSvg("svg", { ...box, role: "img", "aria-label": "Shares of the time; the table below says the same" }, ...parts);
}

/** @param {any} ledger */
function table(ledger) {
  const rows = Object.entries(ledger.accounts).map(([name, seconds]) =>
    make("tr", {},
      make("th", { scope: "row" }, swatch(`account-${known(name)}`), name),
      make("td", { class: "number" }, spanWords(Number(seconds))),
      make("td", { class: "number" }, percentWords(Number(seconds) / ledger.whole_s)),
      make("td", { class: "quiet" }, MEANING.get(name) ?? "")));
  const head = make("tr", {}, ...["account", "time", "share", "what it is"].map((word) => make("th", { scope: "col" }, word)));
  return make("table", { class: "ledger" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

/** @param {string} name */
const known = (name) => (MEANING.has(name) ? name : "waiting");
