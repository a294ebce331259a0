/** Elements made of text: nothing that a run, a trainer or a server says ever becomes markup. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | EventListener>} Attributes */

/** @type {WeakMap<Element, string>} what each element was last drawn from */
const drawn = new WeakMap();

// Characters that turn the order of what stands beside them: a log line that holds one could make a question read as another.
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** As it is shown, in the order in which it was written. @param {unknown} words */
export const plainText = (words) => String(words).replace(DIRECTIONS, "");

/**
 * An attribute that is a function is a listener ("onclick"); true is an attribute without a value; false, null: none.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The element that index.html has under this id. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no element ${id}`);
  return found;
}

/**
 * Draws the children of `parent` anew when what they are drawn from has changed, and only then: whoever reads, selects or tabs
 * through them is left alone. Focus and opened details are found again by their data-key.
 * @param {Element} parent
 * @param {unknown} from anything JSON can hold
 * @param {() => Child[]} draw
 */
export function redraw(parent, from, draw) {
  const key = JSON.stringify(from);
  if (drawn.get(parent) === key) return;
  drawn.set(parent, key);
  const focused = parent.contains(document.activeElement) ? dataKey(document.activeElement) : "";
  const toggled = new Map([...parent.querySelectorAll("details[data-key]")].map((d) => [dataKey(d), isOpen(d)]));
  parent.replaceChildren(...draw().filter(isShown));
  for (const details of parent.querySelectorAll("details[data-key]")) {
    const was = toggled.get(dataKey(details));
    if (was !== undefined) details.toggleAttribute("open", was);
  }
  if (focused) keyed(parent, focused)?.focus({ preventScroll: true });
}

/** @param {Element | null} element */
function dataKey(element) {
  return element instanceof HTMLElement ? element.dataset.key ?? "" : "";
}

/** @param {Element} details */
function isOpen(details) {
  return details.hasAttribute("open");
}

/** @param {Element} parent @param {string} key @returns {HTMLElement | undefined} */
function keyed(parent, key) {
  return /** @type {HTMLElement[]} */ ([...parent.querySelectorAll("[data-key]")]).find((element) => element.dataset.key === key);
}

/** @param {Child} child @returns {child is Node | string} */
function isShown(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}

/** @param {any} element @param {Attributes} attributes @param {Child[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter(isShown).map((child) => (child instanceof Node ? child : plainText(child))));
  return element;
}
