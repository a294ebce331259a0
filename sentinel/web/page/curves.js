/** The section of curves: which are shown, over which steps, on what scale, and whose colour is whose. */

import { readCurves, readMetricNames, readShownCurves } from "./api.js";
import { onColoursChanged } from "./colours.js";
import { CurveStore } from "./curve_store.js";
import { byId, make, redraw } from "./dom.js";
import { countWords, stepWords } from "./numbers.js";
import { Plot } from "./plot.js";
import { colourOf, survivesTo } from "./plot_data.js";
import { bandOf } from "./plot_marks.js";

const PLOTS_MAX = 12;
const FAMILY_MIN = 2;
const LEGEND_MAX = 12;
const NAMES_EVERY_MS = 15_000;
const CHOSEN = "sentinel-curves";

export class Curves {
  store = new CurveStore();
  /** @type {Map<string, Plot>} by choice, in the order they are shown */
  plots = new Map();
  isLog = false;
  /** @type {import("./plot_marks.js").IncidentBand[]} */
  bands = [];
  /** @type {[number, number] | null} steps chosen by dragging */
  #zoomed = null;
  #last = 0;
  #drawn = "";
  #run = "";
  /** @type {string[]} */
  #names = [];
  #namesMs = -Infinity;
  /** @type {string[]} shown until a person chooses others, as the server says; empty before it did */
  #usual = [];
  /** @type {string[] | null} by the person, null: the usual ones */
  #chosen = readChosen();

  constructor() {
    byId("log-scale").addEventListener("click", () => this.toggleLog());
    for (const button of document.querySelectorAll("[data-last]")) {
      button.addEventListener("click", () => this.showLast(Number(/** @type {HTMLElement} */ (button).dataset.last)));
    }
    onColoursChanged(() => this.plots.forEach((plot) => plot.renew()));
    new ResizeObserver(() => this.plots.forEach((plot) => plot.resize())).observe(byId("plots"));
  }

  /** Another run. @param {string} run */
  begin(run) {
    this.#run = run;
    this.#names = [];
    this.#namesMs = -Infinity;
    this.bands = [];
    this.#begin();
  }

  /** Asks for what is new and draws it. */
  async refresh() {
    const run = this.#run;
    if (!this.#usual.length) this.#usual = (await readShownCurves()).shown;
    if (run !== this.#run) return;
    if (performance.now() - this.#namesMs > NAMES_EVERY_MS || !this.#names.length) {
      const names = await readMetricNames(run);
      if (run !== this.#run) return;
      this.#know(names.metrics);
    }
    const choices = this.#choices();
    if (!choices.length) return;
    const answer = await readCurves(run, choices, this.store.cursor, this.#view());
    if (run !== this.#run || choices.join() !== this.#choices().join()) return;
    this.store.take(answer);
    this.draw();
  }

  /** @param {any[]} incidents */
  mark(incidents) {
    this.bands = incidents.map(bandOf);
    this.draw();
  }

  toggleLog() {
    this.isLog = !this.isLog;
    byId("log-scale").setAttribute("aria-pressed", String(this.isLog));
    this.#look();
  }

  /** The newest steps only; 0: all. @param {number} count */
  showLast(count) {
    this.#last = count;
    this.#zoomed = null;
    this.#look();
  }

  /** @param {[number, number] | null} range null: back to what the buttons say */
  zoom(range) {
    this.#zoomed = range;
    this.#look();
  }

  /** Drawn at once, and again when the server has said how far the scale of these steps reaches. */
  #look() {
    this.draw();
    void this.refresh().catch(() => undefined);  // the next round tells what is wrong
  }

  /** What the server is told of it. @returns {Record<string, string>} */
  #view() {
    /** @type {Record<string, string>} */
    const view = this.isLog ? { scale: "log" } : {};
    if (!this.#zoomed && !this.#last) return view;
    const [first, last] = this.range().map((step) => String(Math.max(0, Math.round(step))));
    return this.#zoomed ? { ...view, first, last } : { ...view, first };
  }

  /** The steps that all plots show. @returns {[number, number]} */
  range() {
    if (this.#zoomed) return this.#zoomed;
    const [first, last] = this.store.span() ?? [0, 1];
    const from = this.#last ? Math.max(first, last - this.#last) : first;
    return [from, Math.max(last, from + 1)];
  }

  /** Only where something has changed since it was drawn. */
  draw() {
    const key = JSON.stringify([this.store.version, this.isLog, this.range(), this.bands, [...this.plots.keys()]]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.#pressRange();
    for (const plot of this.plots.values()) plot.draw(this.store);
    this.#drawLegend();
  }

  /** Begin with the curves that are chosen now. */
  #begin() {
    this.store.clear();
    this.#zoomed = null;
    this.#drawn = "";
    this.plots.forEach((plot) => plot.remove());
    this.plots.clear();
    for (const choice of this.#choices()) {
      const plot = new Plot(choice, this);
      this.plots.set(choice, plot);
      byId("plots").append(plot.element);
    }
  }

  /** @param {string[]} names of all metrics the run tells */
  #know(names) {
    this.#namesMs = performance.now();
    const usable = names.filter((name) => !name.includes(","));  // the API separates names by commas
    if (usable.join() === this.#names.join()) return;
    const before = this.#choices().join();
    this.#names = usable;
    if (before !== this.#choices().join()) this.#begin();
    this.#drawChoices();
  }

  /** What can be chosen: families with all their layers first, then single metrics. */
  #offered() {
    const families = new Map();
    for (const name of this.#names) {
      const prefix = name.slice(0, name.indexOf("/") + 1);
      if (prefix) families.set(prefix, (families.get(prefix) ?? 0) + 1);
    }
    const shared = [...families].filter(([, count]) => count >= FAMILY_MIN).map(([prefix]) => prefix);
    return [...shared, ...this.#names.filter((name) => !shared.some((prefix) => name.startsWith(prefix)))];
  }

  #choices() {
    const offered = new Set(this.#offered());
    const usual = this.#usual.map((choice) => (offered.has(choice) ? choice : aloneOf(choice)));
    const chosen = (this.#chosen ?? usual).filter((choice) => offered.has(choice));
    return (chosen.length || this.#chosen ? chosen : [...offered]).slice(0, PLOTS_MAX);
  }

  #drawChoices() {
    const chosen = this.#choices();
    const isFull = chosen.length >= PLOTS_MAX;
    redraw(byId("choices"), [this.#offered(), chosen], () =>
      this.#offered().map((choice) => {
        const isShown = chosen.includes(choice);
        const box = make("input", {
          type: "checkbox", checked: isShown, disabled: isFull && !isShown, "data-key": choice,
          onchange: () => this.#choose(choice),
        });
        return make("label", { class: "check" }, box, choice.endsWith("/") ? `${choice.slice(0, -1)} per layer` : choice);
      }));
  }

  /** @param {string} choice */
  #choose(choice) {
    const shown = this.#choices();
    this.#chosen = shown.includes(choice) ? shown.filter((one) => one !== choice) : [...shown, choice];
    sessionStorage.setItem(CHOSEN, JSON.stringify(this.#chosen));
    this.#begin();
    this.#drawChoices();
    void this.refresh().catch(() => undefined);  // the next round tells what is wrong
  }

  #pressRange() {
    for (const button of document.querySelectorAll("[data-last]")) {
      const isOwn = Number(/** @type {HTMLElement} */ (button).dataset.last) === this.#last;
      button.setAttribute("aria-pressed", String(isOwn && !this.#zoomed));
    }
  }

  #drawLegend() {
    const { attempts } = this.store;
    const told = attempts.map((attempt, at) => ({ number: attempt.attempt, fate: fateOf(attempt, survivesTo(attempts, at)) }));
    const shown = told.slice(-LEGEND_MAX);
    const earlier = told.length - shown.length;
    const zoomed = this.#zoomed?.map(Math.round);
    redraw(byId("attempts"), [shown, earlier, zoomed], () => [
      earlier > 0 && make("span", { class: "quiet" }, `${countWords(earlier, "earlier attempt")}, `),
      ...shown.map(legendItem),
      make("span", {}, swatch("abandoned"), "abandoned steps"),
      zoomed && make("button", { type: "button", "data-key": "reset", onclick: () => this.zoom(null) },
        `steps ${stepWords(zoomed[0])} to ${stepWords(zoomed[1])}: show all again`),
    ]);
  }
}

/** The metric that stands for a family of which no layer is told. @param {string} choice */
const aloneOf = (choice) => (choice.endsWith("/") ? choice.slice(0, -1) : choice);

/** @param {import("./curve_store.js").Attempt} attempt @param {number} survives */
function fateOf(attempt, survives) {
  if (survives === Infinity) return attempt.is_over ? "" : "live";
  return survives === -Infinity ? "abandoned" : `to step ${stepWords(survives)}`;
}

/** @param {{number: number, fate: string}} attempt */
function legendItem({ number, fate }) {
  const tone = fate === "abandoned" ? "abandoned" : `attempt-${colourOf(number)}`;
  return make("span", {}, swatch(tone), `attempt ${number}`, fate && make("span", { class: "quiet" }, ` ${fate}`));
}

/** A bit of colour beside words. @param {string} name */
export function swatch(name) {
  return make("i", { class: `swatch ${name}`, "aria-hidden": "true" });
}

/** @returns {string[] | null} */
function readChosen() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(CHOSEN) ?? "null");
    return Array.isArray(kept) ? kept.map(String) : null;
  } catch {
    return null;
  }
}
