/** One plot: a metric, or a family of them (one line per layer), of all attempts over the steps. */

import { colour, layerColour } from "./colours.js";
import { make, plainText, redraw } from "./dom.js";
import { numberWords, stepWords } from "./numbers.js";
import { BESIDE, columnsOf, linesOfFamily, linesOfOne, outsideOf, segmentsOf, valueAt } from "./plot_data.js";
import { drawBands, drawLabels, drawNonFinite, drawOutside, nameOf } from "./plot_marks.js";
import { farthest, outsideWords } from "./plot_outside.js";
import vendored from "./vendor/uPlot.esm.js";

/** @type {any} the vendored file has no types */
const uPlot = vendored;

const HEIGHT = 176;
const AXIS_WIDTH = 58;
const RAW_ALPHA = 0.3;
const MARK_PX = 10;  // marks at the edge are so far apart
const HOVER_KEY = "sentinel";

/**
 * What all plots share: the steps shown, and the incidents.
 * @typedef {{range: () => [number, number], isLog: boolean, bands: import("./plot_marks.js").IncidentBand[],
 *   zoom: (range: [number, number] | null) => void, choice: import("./view.js").Choice,
 *   beside: import("./beside.js").Beside}} View
 * @typedef {import("./plot_data.js").Line} Line
 */

export class Plot {
  /** @type {any} the uPlot; null while there is nothing to draw */
  chart = null;
  /** @type {any[][]} */
  columns = [[]];
  /** @type {Line[]} */
  #lines = [];
  #shape = "";
  /** @type {number[]} */
  #nonFinite = [];
  /** @type {import("./plot_data.js").Segment[]} of the metric, or of the family's last layer */
  #told = [];
  #isLog = false;
  /** @type {[number, number] | null} the values that the scale shows; null: all that are visible */
  #scale = null;
  /** @type {import("./plot_data.js").Outside[]} */
  #outside = [];
  #name;
  #value;
  #beyond;
  #canvas;

  /** @param {string} choice a metric, or `prefix/` @param {View} view */
  constructor(choice, view) {
    this.choice = choice;
    this.view = view;
    this.isFamily = choice.endsWith("/");
    this.#value = make("output", { class: "value" });
    this.#name = make("b", {}, this.title);
    this.#beyond = make("small", { class: "beyond" });
    this.#canvas = make("div", { class: "canvas", role: "img", "aria-label": `${this.title}: nothing drawn yet` });
    this.element = make("figure", { class: "plot" }, make("figcaption", {}, this.#name, this.#value, this.#beyond), this.#canvas);
  }

  get title() {
    return this.isFamily ? `${this.choice.slice(0, -1)} per layer` : this.choice;
  }

  /** @param {import("./curve_store.js").CurveStore} store */
  draw(store) {
    const names = store.members(this.choice);
    const { attempts } = store;
    const { smooth, beside, by } = this.view.choice;
    this.#lines = this.isFamily
      ? linesOfFamily(attempts, names, (name) => store.of(name))
      : [...linesOfOne(attempts, store.of(this.choice)), ...this.view.beside.lines(this.choice, beside, store, by)];
    this.columns = columnsOf(this.#lines, this.isFamily, this.view.range(), smooth);
    this.#scale = both(store.reach.get(this.choice), this.view.beside.store.reach.get(this.choice));
    this.#outside = this.#scale ? this.#findOutside(this.#scale) : [];
    this.#nonFinite = [...new Set(names.flatMap((name) => [...store.of(name).values()].flatMap((series) => series.nonFinite)))];
    this.#told = names.length ? segmentsOf(attempts, store.of(names[names.length - 1])) : [];
    this.#isLog = this.view.isLog && this.columns.slice(1).every((column) => column.every((value) => (value ?? 1) > 0));
    const scale = this.#isLog ? ", log" : this.view.isLog ? ", linear: not all above zero" : "";
    this.#name.textContent = plainText(this.title) + scale;
    this.#show();
    this.#tell(null);
    this.#describe(names.length);
  }

  /** @param {[number, number]} scale */
  #findOutside(scale) {
    return outsideOf(this.#lines, scale, this.view.range(), this.#width() / MARK_PX, this.isFamily);
  }

  /** Colours, width or the scale have changed. */
  renew() {
    this.#shape = "";
    this.#show();
  }

  resize() {
    const width = this.#width();
    if (this.chart && width > 0 && this.chart.width !== width) this.chart.setSize({ width, height: HEIGHT });
  }

  remove() {
    this.chart?.destroy();
    this.chart = null;
    this.element.remove();
  }

  #show() {
    const { smooth } = this.view.choice;
    const shape = JSON.stringify([this.#lines.map((line) => [line.colour, line.member]), this.#isLog, smooth > 0]);
    if (this.chart && shape === this.#shape) {
      this.chart.setData(this.columns);
      return;
    }
    this.chart?.destroy();
    this.#shape = shape;
    this.chart = new uPlot(this.#options(), this.columns, this.#canvas);
  }

  #options() {
    const { view } = this;
    const grid = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: colour("quiet"), font: "11px system-ui, sans-serif", grid, ticks: { show: false } };
    const reach = (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => this.#reach(low, high);
    return {
      width: this.#width(), height: HEIGHT, padding: [8, 12, 0, 0], legend: { show: false },
      scales: {
        x: { time: false, range: () => view.range() },
        y: { distr: this.#isLog ? 3 : 1, range: reach },
      },
      axes: [{ ...axis, size: 26, values: words }, { ...axis, size: AXIS_WIDTH, values: words, space: 28 }],
      series: [{}, ...this.#lines.flatMap((line) => this.#strokes(line))],
      bands: this.isFamily ? [] : this.#lines.map((line, at) => stripe(line, at, view.choice.smooth > 0)),
      cursor: this.#cursor(),
      hooks: {
        drawAxes: [(/** @type {any} */ plot) => drawBands(plot, view.bands)],
        draw: [(/** @type {any} */ plot) => { this.#drawAbove(plot); }],
        setCursor: [(/** @type {any} */ plot) => this.#tell(plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null)],
        setSelect: [(/** @type {any} */ plot) => this.#zoom(plot)],
      },
    };
  }

  /** @param {any} plot */
  #drawAbove(plot) {
    drawLabels(plot, this.view.bands);
    drawNonFinite(plot, this.#nonFinite);
    drawOutside(plot, this.#outside);
  }

  #cursor() {
    const isMove = (/** @type {string} */ type) => type === "mousemove" || type === "mouseleave";
    const reset = () => { this.view.zoom(null); return null; };
    return {
      sync: { key: HOVER_KEY, setSeries: false, scales: ["x", null], filters: { pub: isMove, sub: isMove } },
      drag: { x: true, y: false, setScale: false, dist: 6 }, points: { show: false }, y: false, bind: { dblclick: () => reset },
    };
  }

  /** @param {Line} line */
  #strokes(line) {
    const members = Math.max(1, ...this.#lines.map((one) => one.member));
    const isSmooth = this.view.choice.smooth > 0;
    const own = stroke(line, members, this.isFamily);
    const dash = line.colour === BESIDE ? [6, 4] : [];
    const told = { stroke: own, width: line.colour === -1 ? 1 : 1.5, label: line.label, dash };
    const raw = isSmooth ? { ...told, alpha: RAW_ALPHA, width: 1 } : told;  // it stays faint behind the smoothed one
    const bare = { ...raw, points: { show: false } };
    const smooth = isSmooth ? [{ ...told, width: 2, points: { show: false } }] : [];
    return this.isFamily ? [bare, ...smooth] : [bare, { ...raw, points: { size: 4 } }, ...smooth];
  }

  /** @param {number | null} shownLow @param {number | null} shownHigh of what is visible */
  #reach(shownLow, shownHigh) {
    const [low, high] = this.#scale ?? [shownLow, shownHigh];
    if (low === null || high === null) return this.#isLog ? [1, 10] : [0, 1];
    return this.#isLog ? uPlot.rangeLog(low, high, 10, false) : uPlot.rangeNum(low, high, 0.08, false);
  }

  /** @param {any} plot */
  #zoom(plot) {
    const { left, width } = plot.select;
    if (width <= 0) return;
    const range = /** @type {[number, number]} */ ([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.view.zoom(range);
  }

  /** The value under the pointer, or the newest. @param {number | null} step */
  #tell(step) {
    const at = step === null ? Infinity : Math.round(step);
    const found = valueAt(this.#told, at === Infinity ? Number.MAX_SAFE_INTEGER : at);
    if (!found) {
      this.#beyond.replaceChildren();
      this.#value.textContent = this.#nonFinite.length ? "not a number" : "";
      return;
    }
    const words = found.low === found.high ? numberWords(found.high) : `${numberWords(found.low)} to ${numberWords(found.high)}`;
    this.#value.textContent = step === null ? words : `${words} · step ${stepWords(found.step)} · attempt ${found.attempt}`;
    const near = step === null ? this.#outside : this.#outside.filter((one) => Math.abs(one.step - step) <= this.#stepsOfMark());
    redraw(this.#beyond, near, () => farthest(near).map((one) => make("span", {}, outsideWords(one))));
  }

  /** Half a mark, in steps. */
  #stepsOfMark() {
    const [first, last] = this.view.range();
    return Math.max(1, ((last - first) / this.#width()) * MARK_PX / 2);
  }

  /** For who does not see the canvas. @param {number} members */
  #describe(members) {
    const newest = valueAt(this.#told, Number.MAX_SAFE_INTEGER);
    const now = newest ? `, ${numberWords(newest.high)} at step ${stepWords(newest.step)}` : ", nothing to draw yet";
    const family = this.isFamily ? `, ${members} layers` : "";
    const gaps = this.#nonFinite.length ? `, not a number at ${this.#nonFinite.length} steps` : "";
    const beyond = farthest(this.#outside).map((one) => `, outside the scale ${outsideWords(one)}`).join("");
    this.#canvas.setAttribute("aria-label", `${this.title}${family}${now}${gaps}${beyond}`);
  }

  #width() {
    return Math.max(200, Math.floor(this.#canvas.clientWidth));
  }
}

/** @param {Line} line @param {number} members @param {boolean} [isFamily] */
function stroke(line, members, isFamily = false) {
  return isFamily && line.colour >= 0 ? layerColour(line.member / members) : colour(nameOf(line.colour));
}

/** Between a line's lowest and highest values. @param {Line} line @param {number} at @param {boolean} isSmooth */
function stripe(line, at, isSmooth) {
  const first = (isSmooth ? 3 : 2) * at + 1;
  return { series: [first + 1, first], fill: `${stroke(line, 1)}${isSmooth ? "22" : "55"}` };
}

/**
 * A scale that shows both.
 * @param {[number, number] | undefined} one @param {[number, number] | undefined} other @returns {[number, number] | null}
 */
function both(one, other) {
  if (!one || !other) return one ?? other ?? null;
  return [Math.min(one[0], other[0]), Math.max(one[1], other[1])];
}

/** Words for an axis. @param {any} _ @param {(number | null)[]} splits */
function words(_, splits) {
  return splits.map((value) => (value === null ? "" : numberWords(value)));
}
