/** What is drawn into a plot besides its curves: incidents as bands with their number, onsets, values that were no numbers. */

import { colour } from "./colours.js";
import { BESIDE } from "./plot_data.js";
import { isOpen } from "./states.js";

const BAND_MIN_PX = 3;
const LABEL_GAP_PX = 20;

/** @typedef {{id: number, from: number, to: number, onset: number | null, isOpen: boolean}} IncidentBand */

/** The name in style.css of a line's colour. @param {number} own */
export function nameOf(own) {
  if (own === BESIDE) return "beside";
  return own < 0 ? "abandoned" : `attempt-${own}`;
}

/** From where it began, or was seen, to where it broke. @param {any} incident @returns {IncidentBand} */
export function bandOf(incident) {
  const from = incident.onset_step ?? incident.detected_step;
  const to = Math.max(from, incident.break_step ?? incident.detected_step);
  return { id: incident.id, from, to, onset: incident.onset_step, isOpen: isOpen(incident) };
}

/** Below the curves. @param {any} plot a uPlot @param {IncidentBand[]} bands */
export function drawBands(plot, bands) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const band of bands) {
    const place = placeOf(plot, band);
    if (!place) continue;
    ctx.fillStyle = colour(band.isOpen ? "band-open" : "band-past");
    ctx.fillRect(place.left, bbox.top, place.width, bbox.height);
  }
  ctx.restore();
}

/** Above the curves: the onset's dashed line and the incident's number. @param {any} plot @param {IncidentBand[]} bands */
export function drawLabels(plot, bands) {
  const { ctx, bbox } = plot;
  const pxRatio = ratioOf(plot);
  ctx.save();
  ctx.font = `600 ${11 * pxRatio}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  ctx.lineWidth = pxRatio;
  /** @type {number[]} where labels stand; the newest incident's comes first */
  const taken = [];
  for (const band of [...bands].sort((a, b) => b.id - a.id)) {
    const place = placeOf(plot, band);
    if (!place) continue;
    ctx.strokeStyle = ctx.fillStyle = colour(band.isOpen ? "bad" : "warn");
    if (band.onset !== null && place.left >= bbox.left) {
      ctx.setLineDash([4 * pxRatio, 3 * pxRatio]);
      ctx.beginPath();
      ctx.moveTo(place.left, bbox.top);
      ctx.lineTo(place.left, bbox.top + bbox.height);
      ctx.stroke();
    }
    const label = `#${band.id}`;
    const x = Math.max(bbox.left, Math.min(place.left + 3 * pxRatio, bbox.left + bbox.width - ctx.measureText(label).width));
    if (taken.every((other) => Math.abs(other - x) >= LABEL_GAP_PX * pxRatio)) {
      ctx.fillText(label, x, bbox.top + 2 * pxRatio);
      taken.push(x);
    }
  }
  ctx.restore();
}

/** A small triangle at the upper edge for each step whose value was no number. @param {any} plot @param {number[]} steps */
export function drawNonFinite(plot, steps) {
  const { ctx, bbox } = plot;
  const pxRatio = ratioOf(plot);
  const size = 4 * pxRatio;
  ctx.save();
  ctx.fillStyle = colour("bad");
  for (const step of steps) {
    const x = plot.valToPos(step, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top - size);
    ctx.lineTo(x + size, bbox.top - size);
    ctx.lineTo(x, bbox.top + size);
    ctx.fill();
  }
  ctx.restore();
}

/**
 * A triangle at the edge for what lies outside the scale, in the colour of its line.
 * @param {any} plot @param {import("./plot_data.js").Outside[]} outside
 */
export function drawOutside(plot, outside) {
  const { ctx, bbox } = plot;
  const size = 5 * ratioOf(plot);
  ctx.save();
  for (const { step, side, colour: own } of outside) {
    const x = plot.valToPos(step, "x", true);
    const edge = side > 0 ? bbox.top : bbox.top + bbox.height;
    ctx.fillStyle = colour(nameOf(own));
    ctx.beginPath();
    ctx.moveTo(x, edge);
    ctx.lineTo(x - size, edge + 2 * side * size);
    ctx.lineTo(x + size, edge + 2 * side * size);
    ctx.fill();
  }
  ctx.restore();
}

/** Where a band lies in the plot, in canvas pixels; null where it lies outside. @param {any} plot @param {IncidentBand} band */
function placeOf(plot, band) {
  const { bbox } = plot;
  const left = plot.valToPos(band.from, "x", true);
  const right = Math.max(plot.valToPos(band.to, "x", true), left + BAND_MIN_PX * ratioOf(plot));
  if (!(right >= bbox.left) || !(left <= bbox.left + bbox.width)) return null;
  const from = Math.max(left, bbox.left);
  return { left: from, width: Math.min(right, bbox.left + bbox.width) - from };
}

/** Canvas pixels in a CSS pixel. @param {any} plot */
function ratioOf(plot) {
  return plot.ctx.canvas.width / plot.width;
}
