/** The line below the banner: what came of the last thing that a person asked for, in a sentence. */

import { byId, plainText } from "./dom.js";

/** @param {"plain" | "good" | "warn" | "bad"} tone @param {string} words */
export function tell(tone, words) {
  const line = byId("answer");
  line.hidden = false;
  line.className = `answer ${tone}`;
  line.textContent = plainText(words);
}
