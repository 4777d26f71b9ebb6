// Signing in at the OpenID provider: authorization code with PKCE. What belongs to it stays in this tab.

import * as rest from "./rest.js";

const PENDING = "attachment-gateway.sign-in";

/** The page to which the provider sends people back. */
const page = new URL("./", document.baseURI).href;

const encoded = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => encoded(crypto.getRandomValues(new Uint8Array(32)));

/** Go to the provider, which GET v1/sign-in describes. */
export async function begin(provider) {
  if (!crypto.subtle) throw new rest.Problem(400, { detail: "Browsers allow this only over https, or on the gateway's own machine." });
  const pending = { state: random(), nonce: random(), verifier: random(), place: location.hash };
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  const url = new URL(provider.authorization_endpoint);
  const query = {
    ...provider.parameters, response_type: "code", client_id: provider.client_id, redirect_uri: page, scope: provider.scope,
    state: pending.state, nonce: pending.nonce, code_challenge: encoded(new Uint8Array(digest)), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  location.assign(url);
}

/** End what `begin` has begun, if the provider has just sent somebody here. Throws Problem. */
export async function complete() {
  const told = new URLSearchParams(location.search);
  if (!told.has("state")) return;
  const pending = JSON.parse(sessionStorage.getItem(PENDING));
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", page + (pending?.place ?? "")); // The code is not kept, neither here nor in the history.
  if (told.get("state") !== pending?.state) throw new rest.Problem(400, { detail: "This sign-in was not begun in this tab; sign in again." });
  if (!told.get("code")) throw new rest.Problem(400, { detail: `The OpenID provider refuses: ${told.get("error_description") || told.get("error")}` });
  rest.keepTokens(await rest.post("v1/sign-in", { code: told.get("code"), code_verifier: pending.verifier, redirect_uri: page, nonce: pending.nonce }));
}
