/**
 * When the server is asked again: each second while somebody looks, every ten seconds while the page is hidden, ever more
 * seldom (15 s at most) while nothing comes back. One round at a time.
 */

const SEEN_MS = 1_000;
const HIDDEN_MS = 10_000;
const BACKOFF_MAX_MS = 15_000;

export class Pace {
  #failures = 0;
  #timer = 0;
  #isRunning = false;
  #isWanted = false;

  /** @param {() => Promise<boolean>} round asks once; whether something came back */
  constructor(round) {
    this.round = round;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
    addEventListener("online", () => this.now());
  }

  /** Ask now, or as soon as the round that is under way has ended. */
  now() {
    clearTimeout(this.#timer);
    this.#isWanted = this.#isRunning;
    if (!this.#isRunning) void this.#run();
  }

  async #run() {
    this.#isRunning = true;
    let isAnswered = false;
    try {
      isAnswered = await this.round();
    } finally {
      this.#isRunning = false;
      this.#failures = isAnswered ? 0 : this.#failures + 1;
      const waitMs = this.#isWanted ? 0 : this.#waitMs();
      this.#isWanted = false;
      this.#timer = setTimeout(() => void this.#run(), waitMs);
    }
  }

  #waitMs() {
    const usual = document.hidden ? HIDDEN_MS : SEEN_MS;
    return Math.max(usual, Math.min(BACKOFF_MAX_MS, SEEN_MS * 2 ** Math.min(10, this.#failures - 1)));
  }
}
