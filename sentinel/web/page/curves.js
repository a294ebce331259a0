/** The section of curves: which are shown, over which steps, on what scale, and whose colour is whose. */

import { readCurves, readMetricNames, readShownCurves } from "./api.js";
import { Beside } from "./beside.js";
import { onColoursChanged } from "./colours.js";
import { drawChoices, drawLegend, drawSelects } from "./curve_bar.js";
import { CurveStore } from "./curve_store.js";
import { byId } from "./dom.js";
import { Plot } from "./plot.js";
import { bandOf } from "./plot_marks.js";
import { keepChoice, readChoice } from "./view.js";

const PLOTS_MAX = 12;
const FAMILY_MIN = 2;
const NAMES_EVERY_MS = 15_000;

export class Curves {
  store = new CurveStore();
  /** @type {Map<string, Plot>} by choice, in the order they are shown */
  plots = new Map();
  beside = new Beside();
  /** @type {import("./view.js").Choice} */
  choice = readChoice();
  /** @type {string[]} */
  #others = [];
  /** @type {import("./plot_marks.js").IncidentBand[]} */
  bands = [];
  /** @type {[number, number] | null} steps chosen by dragging */
  #zoomed = null;
  #drawn = "";
  #run = "";
  /** @type {string[]} */
  #names = [];
  #namesMs = -Infinity;
  /** @type {string[]} shown until a person chooses others, as the server says; empty before it did */
  #usual = [];

  constructor() {
    byId("log-scale").setAttribute("aria-pressed", String(this.isLog));
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

  get isLog() {
    return this.choice.isLog;
  }

  /** The runs that this one may be compared with. @param {string[]} names */
  offer(names) {
    this.#others = names.filter((name) => name !== this.#run);
  }

  /** A person has chosen; the address remembers it. @param {Partial<import("./view.js").Choice>} changed */
  change(changed) {
    this.choice = { ...this.choice, ...changed };
    keepChoice(this.choice);
    this.#look();
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
    const { beside, by } = this.choice;
    const ratio = this.beside.ratioFor(by, this.store);
    const [answer] = await Promise.all([
      readCurves(run, choices, this.store.cursor, this.#view()),
      this.beside.refresh(beside, choices, this.#view(), ratio),
    ]);
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
    byId("log-scale").setAttribute("aria-pressed", String(!this.isLog));
    this.change({ isLog: !this.isLog });
  }

  /** The newest steps only; 0: all. @param {number} count */
  showLast(count) {
    this.#zoomed = null;
    this.change({ last: count });
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
    if (!this.#zoomed && !this.choice.last) return view;
    const [first, last] = this.range().map((step) => String(Math.max(0, Math.round(step))));
    return this.#zoomed ? { ...view, first, last } : { ...view, first };
  }

  /** The steps that all plots show. @returns {[number, number]} */
  range() {
    if (this.#zoomed) return this.#zoomed;
    const [first, last] = this.store.span() ?? [0, 1];
    const from = this.choice.last ? Math.max(first, last - this.choice.last) : first;
    return [from, Math.max(last, from + 1)];
  }

  /** Only where something has changed since it was drawn. */
  draw() {
    const versions = [this.store.version, this.beside.store.version, this.beside.trouble];
    const key = JSON.stringify([versions, this.choice, this.range(), this.bands, [...this.plots.keys()], this.#others]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.#pressRange();
    for (const plot of this.plots.values()) plot.draw(this.store);
    drawLegend(this.store.attempts, this.#zoomed, this.#besideWords(), () => this.zoom(null));
    const attempts = this.store.attempts.map((one) => one.attempt);
    const canCountTokens = this.beside.ratio(this.store) !== null;
    drawSelects(this.choice, this.#others, attempts, canCountTokens, (changed) => this.change(changed));
  }

  #besideWords() {
    const { beside, by } = this.choice;
    if (!beside) return "";
    const words = beside.replace(":", " ");
    if (!beside.startsWith("run:")) return `${words}, whole`;
    if (this.beside.trouble) return `${words}: ${this.beside.trouble}`;
    const isTold = this.beside.ratio(this.store) !== null;
    if (by === "tokens" && !isTold) return `${words}, at the same step: how many tokens a step has is not told`;
    return `${words}, at the same ${by === "tokens" ? "number of tokens" : "step"}`;
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
    const chosen = (this.choice.curves ?? usual).filter((choice) => offered.has(choice));
    return (chosen.length || this.choice.curves ? chosen : [...offered]).slice(0, PLOTS_MAX);
  }

  #drawChoices() {
    const chosen = this.#choices();
    drawChoices(this.#offered(), chosen, chosen.length >= PLOTS_MAX, (choice) => this.#choose(choice));
  }

  /** @param {string} choice */
  #choose(choice) {
    const shown = this.#choices();
    const curves = shown.includes(choice) ? shown.filter((one) => one !== choice) : [...shown, choice];
    this.choice = { ...this.choice, curves };
    this.#begin();
    this.#drawChoices();
    this.change({});
  }

  #pressRange() {
    for (const button of document.querySelectorAll("[data-last]")) {
      const isOwn = Number(/** @type {HTMLElement} */ (button).dataset.last) === this.choice.last;
      button.setAttribute("aria-pressed", String(isOwn && !this.#zoomed));
    }
  }
}

/** The metric that stands for a family of which no layer is told. @param {string} choice */
const aloneOf = (choice) => (choice.endsWith("/") ? choice.slice(0, -1) : choice);
