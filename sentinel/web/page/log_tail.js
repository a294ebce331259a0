/** The ends of the newest attempt's logs: the launcher's, and of the rank that is blamed. The server has masked them. */

import { byId, make, redraw } from "./dom.js";

/** @param {any} answer of /log */
export function drawLog({ attempt, logs, missing }) {
  const labels = logs.map((/** @type {any} */ log) => log.label).join(", ");
  const head = attempt === null ? "" : `attempt ${attempt}: ${labels || "none"}`;
  redraw(byId("log-head"), head, () => [head]);
  redraw(byId("log-body"), [logs, missing], () => [
    missing && make("p", { class: "quiet" }, `${missing}.`),
    ...logs.map(tail),
  ]);
  for (const shown of byId("log-body").querySelectorAll("pre")) shown.scrollTop = shown.scrollHeight;
}

/** @param {any} log */
function tail(log) {
  return make("figure", { class: "tail" },
    make("figcaption", {}, make("b", {}, log.label), make("code", { class: "quiet" }, log.file)),
    make("pre", { tabindex: "0", role: "region", "aria-label": `Log of ${log.label}` }, log.lines.join("\n")));
}
