// The page: sign-in, navigation, and the view of the address.

import * as rest from "./rest.js";
import * as signing from "./signing.js";
import { ErrorBox, Fold, Foreign, Loading, Pending, html, href, may, render, session, useEffect, useErrorBoundary, useRef, useRoute, useState } from "./ui.js";
import { VIEWS, meant } from "./views.js";

function Console() {
  const [signedIn, set] = useState(null);
  const [told, setTold] = useState(null);
  const begin = async () => {
    try {
      await signing.complete();
      session.caller = await rest.get("v1/caller");
      setTold(null);
      set(true);
    } catch (error) {
      setTold(error.status === 401 && !rest.key() ? null : error);
      set(false);
    }
  };
  const end = (error) => {
    rest.endEvents();
    session.caller = null;
    setTold(error ?? null);
    set(false);
  };
  useEffect(() => {
    rest.onSignedOut((error) => session.caller && end(error));
    begin();
  }, []);
  if (signedIn === null) return html`<main><${Loading} /></main>`;
  if (!signedIn) return html`<${SignIn} told=${told} enter=${(key) => { rest.keepKey(key); return begin(); }} again=${begin} />`;
  return html`<${Frame} leave=${() => { rest.forgetKey(); end(null); }} />`;
}

function SignIn({ told, enter, again }) {
  const field = useRef(null);
  const [provider, setProvider] = useState(null);
  const [failed, setFailed] = useState(null);
  useEffect(() => void rest.get("v1/sign-in").then((found) => setProvider(found.oidc), setFailed), []);
  useEffect(() => { document.title = "Sign in - Attachment gateway"; field.current?.focus(); }, []);
  const submit = (event) => {
    event.preventDefault();
    const text = field.current.value.trim();
    if (text) enter(text);
  };
  return html`<main class="sign-in"><h1>Attachment gateway</h1>
    ${provider && html`<p><button type="button" class="primary" onClick=${() => signing.begin(provider).catch(setFailed)}>Sign in with your OpenID provider</button></p>`}
    <form onSubmit=${submit}>
      <label for="key">API key, or access token of your OpenID provider</label>
      <input id="key" type="password" autocomplete="off" spellcheck="false" required ref=${field} />
      <p class="hint">It is kept in this tab until you close it. <code>attachment-gateway keys create</code> makes a key.</p>
      <button class="primary">Sign in</button>
    </form>
    <${ErrorBox} error=${told ?? failed} retry=${told?.status === 0 ? again : null} />
  </main>`;
}

function Frame({ leave }) {
  const { path, query } = useRoute();
  const offered = VIEWS.filter((view) => may(view.scope));
  const known = path.length ? VIEWS.find((one) => one.path === path[0] && path.length <= 1 + (one.most ?? 0)) : offered[0];
  const view = offered.includes(known) ? known : null;
  const heading = useRef(null);
  const first = useRef(true);
  const place = path.join("/");
  useEffect(() => {
    document.title = `${view?.title ?? view?.name ?? "Not found"} - Attachment gateway`;
    if (!first.current) heading.current?.focus(); // Who uses the keyboard or a screen reader goes on in the new view.
    first.current = false;
  }, [place]);
  useEffect(() => {
    const other = meant(path);
    if (other) location.replace(href(...other));
  }, [place]);
  const skip = (event) => { event.preventDefault(); heading.current?.focus(); };
  return html`
    <a class="skip" href="#content" onClick=${skip}>Skip to content</a>
    <header>
      <strong class="brand">Attachment gateway</strong>
      <${Fold} key=${place} label="Menu"><nav aria-label="Views">${offered.filter((one) => one.title).map((one) => html`<a key=${one.path} href=${href([one.path])} aria-current=${one === view || one.path === view?.within ? "page" : undefined}>${one.title}</a>`)}</nav></${Fold}>
      <${Who} leave=${leave} />
    </header>
    <main id="content" tabindex="-1" ref=${heading}>
      ${view ? html`<${View} key=${view.path} view=${view} steps=${path.slice(1)} query=${query} />` : html`<${NotFound} path=${path} view=${known} offered=${offered} />`}
    </main>`;
}

/** What is shown at an address that has no view, or one that the key does not allow. */
const NotFound = ({ path, view, offered }) => html`<h1>Not found</h1>
  <p>${view ? html`Your key has no scope <code>${view.scope}</code>, which the view “${view.title ?? view.name}” needs.`
    : html`The console has no view at <code><${Foreign} text=${`#/${path.join("/")}`} /></code>.`}</p>
  <p>There is: ${offered.filter((one) => one.title).map((one, index) => html`${index ? ", " : ""}<a key=${one.path} href=${href([one.path])}>${one.title}</a>`)}.</p>`;

function Who({ leave }) {
  const [live, setLive] = useState(rest.live);
  useEffect(() => {
    const endWatching = rest.onLive(setLive);
    const endEvents = rest.onEvents(() => {}); // The stream begins with the page, so that its state is always shown.
    return () => { endWatching(); endEvents(); };
  }, []);
  const { caller } = session;
  const isReadOnly = !["send", "delete", "operate", "admin"].some(may);
  return html`<div class="who">
    <span class=${live ? "live" : "live lost"} role="status">${live ? "live" : "not live"}</span>
    ${isReadOnly && html`<span class="tag">read only</span>`}
    ${caller.kind !== "anonymous" && html`<span><${Foreign} text=${caller.name} /></span>`}
    ${rest.key() && html`<button type="button" class="quiet" onClick=${leave}>Sign out</button>`}
  </div>`;
}

const modules = new Map();

function View({ view, steps, query }) {
  const [shown, set] = useState(() => modules.get(view.path) ?? null);
  const [error, setError] = useState(null);
  const [failure, reset] = useErrorBoundary((failed) => console.error(failed));
  useEffect(() => {
    if (shown) return;
    view.load().then(
      (module) => { modules.set(view.path, module.default); set(() => module.default); },
      () => setError(new rest.Problem(0, { detail: "This view could not be loaded." })),
    );
  }, []);
  if (failure) return html`<h1>${view.title ?? view.name}</h1><${ErrorBox} error=${failure} retry=${reset} />`;
  if (!shown) return html`<${Pending} error=${error} />`;
  return html`<${shown} steps=${steps} query=${query} />`;
}

const place = document.getElementById("console");
place.textContent = "";
render(html`<${Console} />`, place);
