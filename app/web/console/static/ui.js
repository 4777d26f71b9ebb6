// What all views use: the templates, the hooks, and the small parts of the page.

import { h, render, Fragment } from "./vendor/preact.mjs";
import { useCallback, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";
import * as rest from "./rest.js";

export const html = htm.bind(h);
export { render, useCallback, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState };
export { href, navigate, replaceQuery, useRoute } from "./router.js";

/** Who is signed in, as GET /v1/caller tells; main.js sets it. */
export const session = { caller: null };

/** Tell whether the caller may do what needs a scope. What it may not do is not offered. */
export const may = (scope) => {
  const scopes = session.caller?.scopes ?? [];
  return !scope || scopes.includes(scope) || scopes.includes("admin");
};

// Loading

/**
 * Return {value, error, loading, reload} of an asynchronous function, which gets an AbortSignal. It is called anew when
 * one of `inputs` changes, and by `reload`; the former value stays until the new one is there.
 */
export function useLoad(load, inputs) {
  const [state, set] = useState({ value: undefined, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const aborting = new AbortController();
    set((old) => ({ ...old, loading: true }));
    load(aborting.signal).then(
      (value) => aborting.signal.aborted || set({ value, error: null, loading: false }),
      (error) => aborting.signal.aborted || set((old) => ({ ...old, error, loading: false })),
    );
    return () => aborting.abort();
  }, [...inputs, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  return { ...state, reload };
}

/**
 * Return {items, error, loading, hasMore, more, reload} of a paged resource. `more` appends the next page, `reload` reads
 * as many items again as there are.
 */
export function usePages(path, query = {}, limit = 100) {
  const inputs = path + JSON.stringify(query);
  const [state, set] = useState({ of: inputs, items: [], next: null, error: null, loading: true });
  const newest = useRef(0);
  const read = async (wanted, before, cursor) => {
    const turn = ++newest.current;
    set((old) => ({ ...old, loading: true }));
    try {
      let items = before;
      let next = cursor;
      do {
        const page = await rest.get(path, { ...query, limit: Math.min(limit, 500), cursor: next });
        items = [...items, ...page.items];
        next = page.next;
      } while (next && items.length < wanted && turn === newest.current);
      if (turn === newest.current) set({ of: inputs, items, next, error: null, loading: false });
    } catch (error) {
      if (turn === newest.current) set((old) => ({ ...old, error, loading: false }));
    }
  };
  useEffect(() => { read(1, [], null); return () => { newest.current++; }; }, [inputs]);
  const items = state.of === inputs ? state.items : [];
  return {
    items, error: state.error, loading: state.loading, hasMore: state.of === inputs && state.next !== null,
    more: () => read(items.length + 1, items, state.next),
    reload: () => read(items.length, [], null),
  };
}

/** Call `act` with the events whose type matches one of `types` ("delivery.*"), at most once in `interval` milliseconds. */
export function useEvents(types, act, interval = 500) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    let waiting = [];
    let timer = null;
    const wanted = (event) => types.some((type) => (type.endsWith("*") ? event.type.startsWith(type.slice(0, -1)) : event.type === type));
    const flush = () => {
      const events = waiting;
      waiting = [];
      timer = null;
      if (events.length) { timer = setTimeout(flush, interval); latest.current(events); }
    };
    const end = rest.onEvents((events) => {
      waiting.push(...events.filter(wanted));
      if (waiting.length && timer === null) timer = setTimeout(flush, 0);
    });
    return () => { end(); clearTimeout(timer); };
  }, [types.join()]);
}

/** Call `act` every `milliseconds`, while `isOn` and the page is seen. */
export function useEvery(milliseconds, act, isOn = true) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => document.hidden || latest.current(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, isOn]);
}

/** Render again every `milliseconds`, for texts such as "3 min ago". */
export function useTick(milliseconds) {
  const [, set] = useState(0);
  useEvery(milliseconds, () => set((n) => n + 1));
}

// Texts

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function size(bytes) {
  if (bytes == null) return "";
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit++; }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ${UNITS[unit]}`;
}

export const number = (value) => (value == null ? "" : value.toLocaleString("en", { maximumFractionDigits: 1 }));

const pad = (value) => String(value).padStart(2, "0");

/** Return a time of REST as 2026-11-22 08:15:03, in the browser's time zone. */
export function time(text) {
  if (!text) return "";
  const at = new Date(text);
  const day = [at.getFullYear(), pad(at.getMonth() + 1), pad(at.getDate())].join("-");
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":")}`;
}

const AGES = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Return how long ago a time of REST was: "3 min". */
export function age(text) {
  const seconds = Math.max(0, (Date.now() - new Date(text)) / 1000);
  const [length, unit] = AGES.find(([length]) => seconds >= length) ?? AGES.at(-1);
  return `${Math.floor(seconds / length)} ${unit}`;
}

// Parts

/** The cells of numbers in a row of a table. */
export const numbers = (...values) => values.map((value) => html`<td class="n">${number(value)}</td>`);

/** A time, with how long ago it was as its title. */
export const Time = ({ at }) => (at ? html`<time datetime=${at} title=${`${age(at)} ago; ${at}`}>${time(at)}</time>` : "–");

/** A text of somebody else: shown as it is, directions isolated, control characters visible. */
export const Foreign = ({ text, empty = "–" }) => html`<bdi class="foreign">${visible(text) || empty}</bdi>`;

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Return a text with its control and direction characters as codes, so that they neither hide nor reorder anything. */
export const visible = (text) => (text ?? "").replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

export const Loading = ({ when = true, what = "Loading" }) => (when ? html`<p class="loading" role="status">${what} …</p>` : null);

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** The state of something, as a word with a colour. */
export const State = ({ of }) => html`<span class=${`state ${of}`}>${of}</span>`;

/** An error in words: what REST said, field by field. */
export function ErrorBox({ error, retry }) {
  if (!error) return null;
  return html`<div class="problem" role="alert">
    <p><strong>${error.title || (error.status === undefined ? "The console failed" : "This did not work")}</strong></p>
    <p class="told">${error.message}</p>
    ${error.errors?.length > 1 && html`<ul>${error.errors.map((one) => html`<li><code>${one.pointer || one.parameter || ""}</code> ${one.detail}</li>`)}</ul>`}
    ${error.status === 403 && error.members?.scope && html`<p>Your key has no scope <code>${error.members.scope}</code>.</p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** What is shown until a value is there: that it is loading, or why it does not come. */
export const Pending = ({ error, retry }) => (error ? html`<${ErrorBox} error=${error} retry=${retry} />` : html`<${Loading} />`);

/** A button that copies a text, e.g. a curl line; what was copied is announced. */
export function Copy({ text, label = "copy as curl", what = "curl line" }) {
  const [copied, set] = useState("");
  const copy = async () => {
    const line = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(line);
      set("copied");
    } catch {
      set(line); // Without TLS browsers have no clipboard: the text is shown.
    }
  };
  return html`<span class="copy"><button type="button" class="quiet" onClick=${copy} title=${`Copy the ${what}`}>${label}</button>
    <span role="status">${copied === "copied" ? "copied" : copied && html`<code>${copied}</code>`}</span></span>`;
}

/**
 * An action: a button for one request, and its curl line. It is not there without its scope. `confirm` asks before.
 * `done` gets the answer's JSON (null if it has none). `request` is {method, path, query, json}.
 */
export function Action({ label, scope, request, confirm, done, disabled, danger, primary }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [asking, setAsking] = useState(false);
  const [refused, setRefused] = useState(0);
  if (!may(scope)) return null;
  const act = async () => {
    setAsking(false);
    setBusy(true);
    setError(null);
    try {
      const response = await rest.request(request.method, request.path, request);
      const text = await response.text();
      await done?.(text ? JSON.parse(text) : null);
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const refuse = () => { setAsking(false); setRefused(refused + 1); };
  const begin = () => (confirm ? setAsking(true) : act());
  const style = danger ? "danger" : primary ? "primary" : "";
  return html`<span class="action">
    ${asking
      ? html`<span role="alertdialog" aria-label=${confirm} class="asking" onKeyDown=${(event) => event.key === "Escape" && refuse()}>${confirm}
          <button type="button" class="danger" ref=${(button) => button?.focus()} onClick=${act}>Yes: ${label}</button>
          <button type="button" onClick=${refuse}>No</button></span>`
      : html`<button type="button" key=${refused} ref=${(button) => refused && button?.focus()} class=${style} disabled=${disabled || busy} onClick=${begin}>${busy ? `${label} …` : label}</button>`}
    <${Copy} text=${() => rest.curl(request.method, request.path, request)} />
    <${ErrorBox} error=${error} />
  </span>`;
}

/** A button that saves what GET answers as a file, with the request as a curl line. `name` if REST gives none. */
export function Download({ label = "Download", path, query, name }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const act = async () => {
    setBusy(true);
    setError(await rest.download(path, query, name).then(() => null, (failed) => failed));
    setBusy(false);
  };
  return html`<span class="action"><button type="button" disabled=${busy} onClick=${act}>${busy ? `${label} …` : label}</button>
    <${Copy} text=${() => rest.curl("GET", path, { query })} /><${ErrorBox} error=${error} /></span>`;
}

/** A bar: how much of a whole is done, both shown by `show`. `whole` null: unknown. */
export const Progress = ({ done, whole, label, show = number }) =>
  html`<span class="progress"><progress aria-label=${label} value=${whole == null ? undefined : done} max=${whole || 1}></progress>
    <span>${show(done)} of ${whole == null ? "?" : show(whole)}</span></span>`;

/** Name and value, in two columns. `rows` is [[name, value], …]; rows without a value are left out. */
export const Facts = ({ rows }) =>
  html`<dl class="facts">${rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`<${Fragment} key=${name}><dt>${name}</dt><dd>${value}</dd></${Fragment}>`)}</dl>`;

/**
 * A table that scrolls sideways by itself, also with the keyboard. `head` is its columns' names, [name] for numbers.
 * On a small screen each row is a card, in which each cell has the name of its column.
 */
export function Table({ label, head, children }) {
  const table = useRef(null);
  useLayoutEffect(() => {
    const names = Array.from(table.current.tHead.rows[0].cells, (cell) => cell.textContent);
    for (const row of table.current.tBodies[0].rows)
      Array.from(row.cells).forEach((cell, index) => { if (cell.dataset.label !== names[index]) cell.dataset.label = names[index]; });
  });
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="rows" ref=${table}>
    <thead><tr>${head.map((name) => html`<th scope="col" class=${Array.isArray(name) ? "n" : undefined}>${name}</th>`)}</tr></thead><tbody>${children}</tbody></table></div>`;
}

/** What is folded away on a small screen until its button is pressed: navigation, filters. */
export function Fold({ label, children }) {
  const [isOpen, setOpen] = useState(false);
  return html`<div class=${isOpen ? "fold open" : "fold"}>
    <button type="button" class="fold-button" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>${label}</button>
    <div class="fold-content">${children}</div></div>`;
}

const SMALL = matchMedia("(max-width: 40rem)"); // as in the style sheets

/** Tell whether the screen is small. */
export function useSmall() {
  const [isSmall, set] = useState(SMALL.matches);
  useEffect(() => {
    const changed = () => set(SMALL.matches);
    SMALL.addEventListener("change", changed);
    return () => SMALL.removeEventListener("change", changed);
  }, []);
  return isSmall;
}

/** A list of values to choose one from. The one that is chosen is there even if it is not among `values`. */
export const Choice = ({ label, value, values, any = "any", change }) => html`<label>${label}<select value=${value} onChange=${(event) => change(event.target.value)}>
  <option value="">${any}</option>${[...new Set([...(value ? [value] : []), ...values])].map((one) => html`<option key=${one} value=${one} selected=${one === value}>${visible(one)}</option>`)}</select></label>`;

/** The end of a list: how many there are, and a button for more. Nothing is cut without a word. */
export function More({ pages, what }) {
  const { items, hasMore, more, loading } = pages;
  if (!items.length) return null;
  const noun = items.length === 1 ? what.replace(/(ie)?s$/, (end) => (end === "ies" ? "y" : "")) : what;
  return html`<p class="more"><span role="status">${number(items.length)} ${noun}${hasMore ? " shown; there are more" : ""}</span>
    ${hasMore && html`<button type="button" disabled=${loading} onClick=${more}>Show more</button>`}</p>`;
}

/** Call `act` when the size of an element changes. Return the function that ends that. */
export function onResize(element, act) {
  const watcher = new ResizeObserver(act);
  watcher.observe(element);
  return () => watcher.disconnect();
}

/** Call `act` when the page becomes dark or light. Return the function that ends that. */
export function onScheme(act) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", act);
  return () => scheme.removeEventListener("change", act);
}

/** Return the index of the last item whose `place` is at most `wanted`; 0 if there is none. Places ascend. */
export function indexAt(items, place, wanted) {
  let [low, high] = [0, items.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (items[middle][place] <= wanted) low = middle;
    else high = middle - 1;
  }
  return low;
}
