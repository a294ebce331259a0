/**
 * The report of an incident, opened beside the page. Where reading needs the token a new tab cannot show it: then it is saved, as
 * the one file that it is.
 */

import { tell } from "./answer.js";
import { isReportOpen, readReport, reportPath } from "./api.js";
import { make } from "./dom.js";
import { storedToken } from "./token.js";

const KEPT_MS = 60_000;  // what is saved must be there until the browser has read it

/** @param {string} run @param {number} incident */
export function reportLink(run, incident) {
  const href = reportPath(run, incident);
  const onclick = (/** @type {Event} */ event) => void open(/** @type {MouseEvent} */ (event), run, incident);
  return make("a", { href, target: "_blank", rel: "noopener", onclick }, `report of incident ${incident}`);
}

/**
 * Asks first, so that a report which is not written yet is a sentence here.
 * @param {MouseEvent} event @param {string} run @param {number} incident
 */
async function open(event, run, incident) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  try {
    const html = await readReport(run, incident);
    if (!storedToken() || (await isReportOpen(run, incident))) window.open(reportPath(run, incident), "_blank", "noopener");
    else save(html, `incident-${incident}.html`);
  } catch (error) {
    tell("warn", `Report of incident ${incident}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** @param {string} html @param {string} name */
function save(html, name) {
  const href = URL.createObjectURL(new Blob([html], { type: "text/html" }));
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
  tell("good", `${name} was saved: open it from your downloads.`);
}
