/** The token that lets this tab act: asked for once, kept until the tab is closed, sent nowhere but to this server. */

import { byId } from "./dom.js";

const TOKEN = "sentinel-token";
const WHO = "sentinel-who";

export const storedToken = () => sessionStorage.getItem(TOKEN) ?? "";
export const storedWho = () => sessionStorage.getItem(WHO) ?? "";

// Not a submitting button, or Enter in the field would press it, being the first.
byId("token-no").addEventListener("click", () => byId("token").close("no"));

/** The server would not have it: ask again. */
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

/**
 * Asks the person. Ends when the dialog is closed; whether there is a token then.
 * @param {string} words why it is asked for
 * @returns {Promise<boolean>}
 */
export function askForToken(words) {
  const dialog = byId("token");
  if (dialog.open) return Promise.resolve(false);
  byId("token-words").textContent = words;
  byId("token-field").value = "";
  byId("who-field").value = storedWho();
  dialog.returnValue = "";
  dialog.showModal();
  byId("token-field").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(keep(dialog.returnValue)), { once: true });
  });
}

/** @param {string} returned */
function keep(returned) {
  const token = byId("token-field").value.trim();
  byId("token-field").value = "";
  if (returned !== "yes" || !token) return false;
  sessionStorage.setItem(TOKEN, token);
  sessionStorage.setItem(WHO, byId("who-field").value.trim());
  return true;
}
