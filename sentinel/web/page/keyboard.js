/** One key each. They move and toggle, and never act on the run; they can be switched off, and rest while somebody types. */

import { byId, make } from "./dom.js";

const SIGNS = [
  "A line in colour is an attempt whose steps survive; grey is what was abandoned by a rollback.",
  "The stripe between two lines: lowest and highest of neighbouring steps drawn as one.",
  "A band with #3 is incident 3, from its first bad step to where it broke; the dashed line is the onset.",
  "A red triangle at the upper edge: a value that was no number.",
  "The steps that survive set the scale. A triangle in a curve's own colour at the edge: a value outside, told above the plot.",
  "Drag over a plot to look closer, in all of them; double click or z shows all again.",
];

/** A menu is open until another place is clicked, or Escape is pressed. */
function closeMenus() {
  const menus = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("details.menu[open]"))];
  document.addEventListener("click", (event) => {
    const target = /** @type {Node} */ (event.target);
    for (const menu of menus()) if (!menu.contains(target) && target.isConnected) menu.removeAttribute("open");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of menus()) {
      const hadFocus = menu.contains(document.activeElement);
      menu.removeAttribute("open");
      if (hadFocus) menu.querySelector("summary")?.focus();
    }
  });
}

/** A link within the page leads there, opens what is closed, and leaves the address alone: that says which run is shown. */
function followLinks() {
  document.addEventListener("click", (event) => {
    const isNewTab = event.ctrlKey || event.metaKey || event.shiftKey;
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    const id = link?.getAttribute("href")?.slice(1) ?? "";
    if (isNewTab || !document.getElementById(id)) return;
    event.preventDefault();
    goTo(id);
  });
}

/** @param {Record<string, [string, () => void]>} shortcuts key → what it does, in words and deeds */
export function listen(shortcuts) {
  const help = byId("help");
  /** @type {Record<string, [string, () => void]>} */
  const all = { ...shortcuts, "?": ["this list", () => help.showModal()] };
  byId("shortcuts").append(...Object.entries(all).map(([key, [words]]) =>
    make("tr", {}, make("th", { scope: "row" }, make("kbd", {}, key)), make("td", {}, words))));
  byId("signs").append(...SIGNS.map((words) => make("li", {}, words)));
  closeMenus();
  followLinks();
  byId("help-button").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    const isChord = event.ctrlKey || event.metaKey || event.altKey;
    if (isChord || event.defaultPrevented || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (!byId("shortcuts-on").checked && event.key !== "?") return;
    const found = Object.hasOwn(all, event.key) ? all[event.key] : undefined;
    if (!found) return;
    event.preventDefault();
    found[1]();
  });
}

/**
 * Scrolls to a section and puts the focus on it, or on the first there is to press. What is folded up is opened.
 * @param {string} id
 */
export function goTo(id) {
  const target = byId(id);
  if (target instanceof HTMLDetailsElement) target.open = true;
  target.scrollIntoView({ block: "start" });
  const focused = target.hasAttribute("tabindex") ? target : target.querySelector("summary, button:not([disabled])");
  focused?.focus({ preventScroll: true });
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  if (target instanceof HTMLInputElement) return target.type !== "checkbox";
  return target instanceof HTMLElement && (target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName));
}
