/** How every detector stands: what is breached, what nobody can know and why, what is well. The sentences are the server's. */

import { byId, make, redraw } from "./dom.js";

const TONES = new Map([["breached", "bad"], ["unknown", "warn"]]);

/** @param {[string, string][]} rows name and words */
export function drawDetectors(rows) {
  const breached = rows.filter(([name]) => name === "breached").length;
  const head = breached ? `${breached} breached` : "none breached";
  redraw(byId("detectors-head"), [head, rows.length], () => [rows.length > 0 && head]);
  redraw(byId("standings"), rows, () => [make("table", { class: "standings" }, make("tbody", {}, ...rows.map(row)))]);
}

/** @param {[string, string]} row */
function row([name, words]) {
  return make("tr", { class: TONES.get(name) ?? "" }, make("th", { scope: "row" }, name), make("td", {}, words));
}
