/** The page's colours for canvases, which cannot read CSS by themselves. They change with light and dark. */

/** @type {Map<string, string>} */
const known = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");

/** A colour of style.css: colour("bad") is --bad. @param {string} name */
export function colour(name) {
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    known.set(name, value);
  }
  return value;
}

/** A layer's colour, from the first (0) to the last (1). @param {number} share */
export function layerColour(share) {
  const lightness = dark.matches ? 74 - 16 * share : 46 - 14 * share;
  return `hsl(${Math.round(205 + 135 * share)} 60% ${Math.round(lightness)}%)`;
}

/** @param {() => void} redrawAll */
export function onColoursChanged(redrawAll) {
  dark.addEventListener("change", () => {
    known.clear();
    redrawAll();
  });
}
