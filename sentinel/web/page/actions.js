/** Asking the supervisor for something: the token first, a confirmation where it changes the run, then what was answered. */

import { tell } from "./answer.js";
import { ask, Refused } from "./api.js";
import { approvalWords } from "./banner.js";
import { byId, plainText } from "./dom.js";
import { countWords, stepWords } from "./numbers.js";
import { askForToken, forgetToken, storedToken } from "./token.js";

const UNAUTHORIZED = 401;

export class Actions {
  /** @type {Set<string>} what is being asked now */
  #busy = new Set();

  /** @param {() => void} onChange draw the buttons again, and look what came of it */
  constructor(onChange) {
    this.onChange = onChange;
  }

  /** @param {string} run @param {string} verb @param {number | null} incident */
  isBusy(run, verb, incident) {
    return this.#busy.has(keyOf(run, verb, incident));
  }

  /**
   * @param {string} run @param {string} verb @param {any} incident null: about the run as a whole
   * @param {Record<string, any>} [fields] @param {any} [status] how the run stands
   */
  async act(run, verb, incident, fields = {}, status = null) {
    const id = incident ? incident.id : null;
    const key = keyOf(run, verb, id);
    if (this.#busy.has(key)) return;
    if (!storedToken() && !(await askForToken("Answers need this server's token (SENTINEL_TOKEN where sentinel runs)."))) return;
    const words = consequence(run, verb, incident) || runConsequence(run, verb, fields, status);
    if (words && !(await confirmed(`${capital(wordsOf(verb))}?`, words, wordsOf(verb)))) return;
    this.#busy.add(key);
    this.onChange();
    tell("plain", `${capital(verb)}: asking …`);
    try {
      const answer = await ask(run, verb, id, fields);
      tell(answer.granted ? "good" : "warn", `${capital(subject(verb, id))}: ${grantedWords(answer.granted)}. ${answer.words}`);
    } catch (error) {
      tell("bad", refusal(error, subject(verb, id)));
    } finally {
      this.#busy.delete(key);
      this.onChange();
    }
  }
}

/** The rung that the person is told of, and no other that may wait by then. @param {string} verb @param {any} incident */
export const meant = (verb, incident) => (verb === "approve" || verb === "deny" ? { rung: incident.awaits_approval } : {});

/** @param {string} run @param {string} verb @param {number | null} incident */
const keyOf = (run, verb, incident) => JSON.stringify([run, verb, incident]);

/** @param {string} verb @param {number | null} incident */
const subject = (verb, incident) => (incident === null ? verb : `${verb} incident ${incident}`);

/** @param {string} word */
const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/**
 * What a person should know before; empty where nothing needs a second thought.
 * @param {string} run @param {string} verb @param {any} incident
 */
function consequence(run, verb, incident) {
  switch (verb) {
    case "approve": return `${approvalWords(incident)} Sentinel carries it out at once.`;
    case "deny": return `${approvalWords(incident)} It is not carried out; sentinel goes on with its next rung, if any.`;
    case "resolve": return `You have taken incident ${incident.id} up: its page is closed on every route that was told.`;
    case "pause": return `Training of ${run} goes on and is watched; no remedy is carried out until somebody resumes them.`;
    default: return "";
  }
}

/** @param {string} verb */
const wordsOf = (verb) => (verb === "rollback" ? "roll back" : verb);

/** What will happen to the run. @param {string} run @param {string} verb @param {any} fields @param {any} status */
function runConsequence(run, verb, fields, status) {
  switch (verb) {
    case "hold": return `Training of ${run} stops after a checkpoint. Sentinel stays; nothing trains until somebody resumes it.`;
    case "stop": return `Training of ${run} stops after a checkpoint, and Sentinel leaves. Nothing watches or trains it until `
      + "somebody starts sentinel run again.";
    case "rollback": return `The attempt of ${run} that trains now is ended, and a new one starts from the newest good `
      + `checkpoint at or below step ${stepWords(fields.to_step)}. ${lostWords(fields.to_step, status)}`
      + "Later checkpoints are moved to quarantine, and none is deleted.";
    case "resume": return status?.state === "held" ? `Training of ${run} is launched again from its newest good checkpoint.` : "";
    default: return "";
  }
}

/** @param {number} step @param {any} status */
function lostWords(step, status) {
  if (!status || status.step === null) return "";
  return `What was trained since then (${countWords(Math.max(0, status.step - step), "step")} or more) is thrown away. `;
}

/** @param {boolean | null} granted */
function grantedWords(granted) {
  if (granted === null) return "asked";
  return granted ? "granted" : "not granted";
}

/** @param {unknown} error @param {string} what */
function refusal(error, what) {
  if (error instanceof Refused && error.status === UNAUTHORIZED) {
    forgetToken();
    return `${capital(what)}: refused. ${error.message} The token was forgotten; press again to enter another.`;
  }
  return `${capital(what)}: ${error instanceof Error ? error.message : String(error)}`;
}

/** @param {string} title @param {string} words @param {string} yes @returns {Promise<boolean>} */
function confirmed(title, words, yes) {
  const dialog = byId("ask");
  if (dialog.open) return Promise.resolve(false);
  byId("ask-title").textContent = title;
  byId("ask-words").textContent = plainText(words);
  byId("ask-yes").textContent = capital(yes);
  dialog.returnValue = "";
  dialog.showModal();
  byId("ask-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
