// The client of REST. Everything that the console knows and does goes through here.
//
// The key is kept in sessionStorage: for this tab, until it is closed. It is sent only to the gateway's own address.

const KEY = "attachment-gateway.key";
const RENEWAL = "attachment-gateway.renewal"; // of an access token: {refresh_token, at}
const SIGN_IN = "v1/sign-in";
const NO_FORM = { "X-Requested-With": "console" }; // no page of another site can send this
const LONGEST_PAUSE = 15000;

/** The gateway's address, with the path of a proxy if there is one: the console is at console/ below it. */
export const gateway = new URL("../", document.baseURI);

export const key = () => sessionStorage.getItem(KEY);
export const keepKey = (text) => sessionStorage.setItem(KEY, text);
export const forgetKey = () => [KEY, RENEWAL].forEach((name) => sessionStorage.removeItem(name));

/** Keep what POST v1/sign-in has answered. The access token is renewed shortly before it expires. */
export function keepTokens(tokens, refreshToken = tokens.refresh_token) {
  forgetKey();
  keepKey(tokens.access_token);
  const lasts = (tokens.expires_in ?? 0) * 1000;
  if (lasts && refreshToken) keepRenewal(refreshToken, Math.max(lasts - 30000, lasts / 2));
}

const keepRenewal = (token, after) => sessionStorage.setItem(RENEWAL, JSON.stringify({ refresh_token: token, at: Date.now() + after }));

let renewing = null;

/** Renew the access token if it is time for that. One that cannot be renewed is used until it is refused. */
async function renewed() {
  const { refresh_token: token, at } = JSON.parse(sessionStorage.getItem(RENEWAL)) ?? {};
  if (token && Date.now() >= at) renewing ??= renew(token).finally(() => { renewing = null; });
  await renewing;
}

async function renew(token) {
  try {
    const tokens = await post(SIGN_IN, { refresh_token: token });
    if (key()) keepTokens(tokens, tokens.refresh_token ?? token);
  } catch (error) {
    if (error.status === 400) sessionStorage.removeItem(RENEWAL);
    else keepRenewal(token, 5000);
  }
}

/** An error that REST has told (RFC 9457), or that the connection failed: then `status` is 0. */
export class Problem extends Error {
  constructor(status, told) {
    super(told.detail || told.title || `the gateway answered ${status}`);
    this.status = status;
    this.title = told.title || "";
    this.type = told.type || "";
    this.errors = told.errors || [];
    this.members = told;
  }
}

/** Return the path of a resource, whatever characters an identifier has that a person has written: `..` would be the path above. */
export const resource = (...steps) =>
  ["v1", ...steps.map((step) => (/^\.+$/.test(step) ? step.replaceAll(".", "%252E") : encodeURIComponent(step)))].join("/");

/** Return the address of a resource: "v1/attachments" and what its query has. Values may be arrays; empty ones are left out. */
export function address(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), gateway);
  for (const [name, value] of Object.entries(query))
    for (const one of [value].flat()) if (one !== "" && one != null) url.searchParams.append(name, one);
  return url;
}

/**
 * Return the Response of a request. Throws Problem for every other status than 2xx, and calls `signedOut` for 401.
 * `json` becomes the body; `body` is sent as it is. `query`, `headers`, `signal` as their names say.
 */
export async function request(method, path, { query, json, body, headers, signal } = {}) {
  if (path !== SIGN_IN) await renewed();
  const sent = { ...NO_FORM, ...authorization(), ...headers };
  if (json !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path, query), {
      method, signal, headers: sent, body: json === undefined ? body : JSON.stringify(json), credentials: "omit", cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The gateway cannot be reached." });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Return the JSON of a GET. */
export async function get(path, query, signal) {
  return (await request("GET", path, { query, signal })).json();
}

/** Return the JSON of a POST of JSON, null if the answer has no content. */
export async function post(path, json, query) {
  const response = await request("POST", path, { json, query });
  return response.status === 204 ? null : response.json();
}

/**
 * Return the JSON of a request with a form, and call `progress` with the bytes sent so far and their sum. fetch does not
 * tell progress, XMLHttpRequest does. Throws Problem.
 */
export async function upload(method, path, form, { query, progress = () => {}, signal, headers } = {}) {
  await renewed();
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open(method, address(path, query));
    for (const [name, value] of Object.entries({ ...NO_FORM, ...authorization(), ...headers })) sending.setRequestHeader(name, value);
    sending.upload.onprogress = (event) => progress(event.loaded, event.total);
    sending.onerror = () => reject(new Problem(0, { detail: "The connection to the gateway failed." }));
    sending.onabort = () => reject(new DOMException("", "AbortError"));
    sending.onload = () => {
      const told = parsed(sending.responseText);
      if (sending.status < 300) resolve(told);
      else reject(noted(new Problem(sending.status, told)));
    };
    signal?.addEventListener("abort", () => sending.abort());
    sending.send(form);
  });
}

/** Save what REST answers as a file, under the name that REST gives it. It is downloaded whole, then saved. */
export async function download(path, query, name) {
  const response = await request("GET", path, { query });
  saveFile(await response.blob(), fileName(response) || name);
}

export function saveFile(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function fileName(response) {
  const told = response.headers.get("Content-Disposition") || "";
  const extended = /filename\*=UTF-8''([^;]+)/i.exec(told);
  return extended ? decodeURIComponent(extended[1]) : /filename="([^"]*)"/i.exec(told)?.[1];
}

/**
 * Return a request as a line for a shell. The key is never in it: the line reads it from the environment. `form` has the
 * names and texts of a form, `files` the names of its parts and of files; `file` is the one that is the whole body.
 */
export function curl(method, path, { query, json, form, files, file, headers = {}, hasKey = Boolean(key()) } = {}) {
  const words = ["curl"];
  const isPost = json !== undefined || form || file;
  if (method !== "GET" && !(method === "POST" && isPost)) words.push("-X", method);
  if (hasKey) words.push("-H", '"Authorization: Bearer $ATTACHMENT_GATEWAY_TOKEN"');
  if (json !== undefined) words.push("-H", "'Content-Type: application/json'", "-d", quoted(JSON.stringify(json)));
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  for (const [name, value] of form || []) words.push("--form-string", quoted(`${name}=${value}`));
  for (const [name, value] of files || []) words.push("-F", quoted(`${name}=@"${value.replace(/[\\"]/g, "\\$&")}"`));
  if (file) words.push("-H", "'Content-Type: application/octet-stream'", "--data-binary", quoted(`@${file}`));
  return [...words, quoted(address(path, query).href)].join(" ");
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const authorization = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

async function problemOf(response) {
  return noted(new Problem(response.status, parsed(await response.text())));
}

let whenSignedOut = () => {};
export const onSignedOut = (act) => { whenSignedOut = act; };

function noted(problem) {
  if (problem.status === 401) whenSignedOut(problem);
  return problem;
}

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

// Events. One stream serves the whole page, because browsers open few connections to one host.

const listeners = new Set();
const watchers = new Set();
let last = null;
let stream = null;
export let live = false;

/**
 * Call `listener` with arrays of CloudEvents as they happen, once a frame at most. Return the function that ends that.
 * After a lost connection the stream goes on where it was.
 */
export function onEvents(listener) {
  listeners.add(listener);
  if (!stream) follow();
  return () => listeners.delete(listener);
}

/** Call `watcher` when the stream of events begins and ends. */
export function onLive(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function endEvents() {
  stream?.abort();
  stream = null;
  last = null;
}

async function follow() {
  const mine = (stream = new AbortController());
  let pause = 500;
  while (stream === mine) {
    try {
      const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
      const response = await request("GET", "v1/events", { headers, signal: mine.signal });
      setLive(true);
      pause = 500;
      await read(response.body.getReader());
    } catch (error) {
      // 410: the catalog was rebuilt or restored. 422: another version of the gateway had this `id`.
      // Events may have been lost, so the page reads everything anew.
      if (last !== null && (error.status === 410 || error.status === 422)) return location.reload();
      if (error.name === "AbortError" || error.status === 401 || error.status === 403) break;
    }
    setLive(false);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
  setLive(false);
}

function setLive(now) {
  live = now;
  for (const watcher of watchers) watcher(now);
}

async function read(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) take(block);
  }
}

let waiting = [];

function take(block) {
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) last = line.slice(4);
    if (line.startsWith("data: ")) {
      // A hidden page has no frames; a timer serves both.
      if (!waiting.length) setTimeout(hand, 50);
      waiting.push(parsed(line.slice(6)));
    }
  }
}

function hand() {
  const events = waiting;
  waiting = [];
  for (const listener of [...listeners]) listener(events);
}
