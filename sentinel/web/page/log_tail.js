/** The ends of the newest attempt's logs: the launcher's, and of the rank that is blamed. The server has masked them. */

import { byId, make, redraw } from "./dom.js";

/** @param {any} answer of /log */
export function drawLog({ attempt, logs, missing }) {
  const labels = logs.map((/** @type {any} */ log) => log.label).join(", ");
  const head = attempt === null ? "" : `attempt ${attempt}: ${labels || "none"}`;
  redraw(byId("log-head"), head, () => [head]);
  const body = byId("log-body");
  const before = body.firstChild;
  const scrolled = [...body.querySelectorAll("pre")].filter(isScrolledUp);
  const read = new Map(scrolled.map((/** @type {HTMLElement} */ shown) => [shown.dataset.log, shown.scrollTop]));
  redraw(body, [logs, missing], () => [
    missing && make("p", { class: "quiet" }, `${missing}.`),
    ...logs.map(tail),
  ]);
  if (body.firstChild === before) return;
  for (const shown of body.querySelectorAll("pre")) shown.scrollTop = read.get(shown.dataset.log) ?? shown.scrollHeight;
}

/** Whoever reads further up is left there. @param {HTMLElement} shown */
const isScrolledUp = (shown) => shown.scrollTop + shown.clientHeight < shown.scrollHeight - 4;

/** @param {any} log */
function tail(log) {
  return make("figure", { class: "tail" },
    make("figcaption", {}, make("b", {}, log.label), make("code", { class: "quiet" }, log.file)),
    make("pre", { "data-log": log.file, tabindex: "0", role: "region", "aria-label": `Log of ${log.label}` },
      log.lines.join("\n")));
}
