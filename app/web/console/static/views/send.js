// Send: files and a destination; first a dry run, then the message. Below: the deliveries.

import { Copy, Empty, ErrorBox, Foreign, Loading, More, Progress, State, Table, Time, href, html, may, navigate, number, size, useEffect, useEvents, useLoad, usePages, useRef, useState } from "../ui.js";
import { DropZone } from "../components/drop.js";
import { isLarge, uploaded } from "../components/resumable.js";
import * as rest from "../rest.js";

const KINDS = ["data-set", "text-file", "binary-file"];
const RULES = { strict: "refuse names that SAS does not accept", literal: "send them as name literals", rename: "rename them" };

export default function Send() {
  return html`<h1>Send</h1>
    <${Composer} />
    ${may("read") && html`<h2>Deliveries</h2><${Deliveries} />`}`;
}

let nextPart = 1;
const entry = (file) => ({ part: `file-${nextPart++}`, file, kind: "", name: "", names: "strict", encoding: "" });

function Composer() {
  const [entries, setEntries] = useState([]);
  const [destination, setDestination] = useState("");
  const [text, setText] = useState("");
  const [proposal, setProposal] = useState(null);
  const [error, setError] = useState(null);
  const [progress, setProgress] = useState(null);
  const key = useRef(null); // of this message: a request that is repeated sends it once
  const uploads = useRef({}); // identifiers of uploads, by part: a dry run uploads, and sending need not upload again
  const sending = useRef(null);
  useEffect(() => () => sending.current?.abort(), []);
  const destinations = useLoad((signal) => (may("read") ? rest.get("v1/summary", {}, signal) : Promise.resolve(null)), []);
  const names = destinations.value?.destinations.map((one) => one.name);
  const chosen = destination || (names?.length === 1 ? names[0] : "");

  const changed = (act) => (value) => {
    key.current = null;
    setProposal(null);
    setError(null);
    act(value);
  };
  const change = changed((update) => setEntries((all) => all.map((one) => (one.part === update.part ? { ...one, ...update } : one))));
  const add = changed((files) => setEntries((all) => [...all, ...files.map(entry)]));
  const remove = changed((part) => setEntries((all) => all.filter((one) => one.part !== part)));

  const message = () => described(chosen, text, entries);
  /** Upload the large files, and return the identifiers of their uploads by part. */
  const uploadLarge = async (signal) => {
    const found = {};
    for (const { part, file } of entries.filter((one) => isLarge(one.file)))
      found[part] = await uploaded(file, {
        signal, known: uploads.current[part], begun: (id) => { uploads.current[part] = id; },
        progress: (sent) => setProgress({ sent, all: file.size }),
      });
    return found;
  };
  const post = async (query, headers) => {
    const { signal } = (sending.current = new AbortController());
    setError(null);
    setProgress({ sent: 0, all: null });
    try {
      const large = await uploadLarge(signal);
      const form = new FormData();
      form.append("message", JSON.stringify({ ...message(), uploads: large }));
      for (const one of entries) if (!(one.part in large)) form.append(one.part, one.file, one.file.name);
      return await rest.upload("POST", "v1/messages", form, { query, headers, signal, progress: (sent, all) => setProgress({ sent, all }) });
    } catch (failed) {
      if (failed.name !== "AbortError") setError(failed);
      return null;
    } finally {
      setProgress(null);
    }
  };
  const rehearse = async () => setProposal(await post({ dry_run: "true" }));
  const send = async (event) => {
    event.preventDefault();
    key.current ??= identifier();
    const accepted = await post({}, { "Idempotency-Key": key.current });
    if (accepted) navigate(["delivery", accepted.id]);
  };
  const line = (query) => rest.curl("POST", "v1/messages", {
    query, form: [["message", JSON.stringify(message())]], files: entries.map((one) => [one.part, one.file.name]),
  });
  const isReady = chosen && entries.length && !progress;
  return html`<form onSubmit=${send}>
    <${ErrorBox} error=${destinations.error} retry=${destinations.reload} />
    <div class="field"><label for="destination">Destination</label>
      ${names
        ? html`<select id="destination" required value=${chosen} onChange=${(event) => changed(setDestination)(event.target.value)}>
            <option value="" disabled>choose one</option>
            ${destinations.value.destinations.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}${one.connected ? "" : " (not connected)"}</option>`)}</select>`
        : html`<input id="destination" type="text" required value=${destination} onInput=${(event) => changed(setDestination)(event.target.value)} />`}
      ${names && !names.length && html`<p class="hint">The gateway's configuration has no destination that your key may use.</p>`}
    </div>
    <div class="field"><label for="text">Application message (optional)</label>
      <textarea id="text" rows="2" value=${text} onInput=${(event) => changed(setText)(event.target.value)}></textarea></div>
    <h2>Files</h2>
    <${DropZone} take=${add} multiple=${true} label="Drop files here" choose="Choose files">
      ${entries.length > 0 && html`<ul class="files">${entries.map((one) => html`<${Entry} key=${one.part} entry=${one} change=${change} remove=${remove} />`)}</ul>`}
    </${DropZone}>
    <div class="bar">
      <button type="button" disabled=${!isReady} onClick=${rehearse}>Dry run</button>
      <${Copy} text=${() => line({ dry_run: "true" })} label="copy the dry run as curl" />
      <button class="primary" disabled=${!isReady}>Send</button>
      <${Copy} text=${() => line({})} />
    </div>
    ${progress && html`<p role="status">${progress.sent === progress.all ? "The gateway reads the files" : "Uploading"}: <${Progress} done=${progress.sent} whole=${progress.all} label="Upload" show=${size} />
      <button type="button" onClick=${() => sending.current.abort()}>Stop</button></p>`}
    <${ErrorBox} error=${error} />
    ${proposal && html`<${Proposal} proposal=${proposal} entries=${entries} />`}
  </form>`;
}

function Entry({ entry: one, change, remove }) {
  const id = (field) => `${one.part}-${field}`;
  const set = (field) => (event) => change({ part: one.part, [field]: event.target.value });
  return html`<li class="card">
    <p><strong><${Foreign} text=${one.file.name} /></strong> ${size(one.file.size)}
      <button type="button" class="quiet" aria-label=${`Remove ${one.file.name}`} onClick=${() => remove(one.part)}>remove</button></p>
    <div class="bar">
      <label for=${id("kind")}>Kind<select id=${id("kind")} value=${one.kind} onChange=${set("kind")}>
        <option value="">by its content</option>${KINDS.map((kind) => html`<option key=${kind}>${kind}</option>`)}</select></label>
      <label for=${id("name")}>Name<input id=${id("name")} type="text" placeholder=${one.kind === "data-set" ? "LIBRARY.MEMBER" : one.file.name} value=${one.name} onInput=${set("name")} /></label>
      ${one.kind === "data-set" && html`
        <label for=${id("names")}>Names of columns<select id=${id("names")} value=${one.names} onChange=${set("names")}>
          ${Object.entries(RULES).map(([rule, meaning]) => html`<option key=${rule} value=${rule}>${meaning}</option>`)}</select></label>
        <label for=${id("encoding")}>Character set<input id=${id("encoding")} type="text" placeholder="of the file" value=${one.encoding} onInput=${set("encoding")} /></label>`}
    </div></li>`;
}

/** Return the JSON that describes the message; what the user left open is left out. */
function described(destination, text, entries) {
  const attachments = entries.map(({ part, kind, name, names, encoding }) => ({
    part,
    ...(kind && { kind }),
    ...(name && { name }),
    ...(kind === "data-set" && { data_set: { names, ...(encoding && { encoding }) } }),
  }));
  return { destination, ...(text && { application_message: { text } }), attachments };
}

/** A random text for Idempotency-Key; crypto.randomUUID exists only with TLS. */
const identifier = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** What the dry run says would be sent. */
function Proposal({ proposal, entries }) {
  const nameOf = (part) => entries.find((one) => one.part === part)?.file.name ?? part;
  const section = useRef(null);
  useEffect(() => section.current.focus(), [proposal]);
  return html`<section aria-label="Dry run" tabindex="-1" ref=${section}>
    <h2>Dry run</h2>
    <p>${number(proposal.messages)} physical messages would be sent to <${Foreign} text=${proposal.destination} />. Nothing was sent.</p>
    ${proposal.attachments.map((one) => html`<div key=${one.part}>
      <h3><${Foreign} text=${nameOf(one.part)} /></h3>
      <p>${one.kind} <strong><${Foreign} text=${one.data_set ? `${one.data_set.library}.${one.data_set.member}` : one.name} /></strong>, ${number(one.messages)} messages${one.data_set && `, ${number(one.data_set.observations)} observations, from ${one.data_set.format}`}</p>
      ${one.data_set?.warnings.length > 0 && html`<ul class="warnings">${one.data_set.warnings.map((warning) => html`<li>${warning.detail}</li>`)}</ul>`}
      ${one.data_set && html`<${Table} label=${`Variables of ${nameOf(one.part)}`} head=${["Column", "Variable", "Type", ["Length"], "Format", "Informat", "Label", "Origin"]}>
        ${one.data_set.variables.map((variable) => html`<tr key=${variable.column}>
          <td><${Foreign} text=${variable.column} /></td><td><${Foreign} text=${variable.name} /></td><td>${variable.type}</td>
          <td class="n">${variable.length}</td><td>${variable.format}</td><td>${variable.informat}</td><td><${Foreign} text=${variable.label} empty="" /></td>
          <td>${origins(variable.origins)}</td></tr>`)}
      </${Table}>`}</div>`)}
  </section>`;
}

/** Return where a variable's attributes come from: "type, length inferred; name file". */
function origins(given) {
  const groups = new Map();
  for (const [attribute, origin] of Object.entries(given)) groups.set(origin, [...(groups.get(origin) ?? []), attribute]);
  return [...groups].map(([origin, attributes]) => `${attributes.join(", ")}: ${origin}`).join("; ");
}

function Deliveries() {
  const [state, setState] = useState("");
  const pages = usePages("v1/deliveries", { state }, 50);
  useEvents(["delivery.*"], pages.reload, 1000);
  return html`<div class="bar"><label>State<select value=${state} onChange=${(event) => setState(event.target.value)}>
      <option value="">all</option>${["queued", "sending", "sent", "failed", "cancelled"].map((one) => html`<option key=${one}>${one}</option>`)}</select></label>
      <${Copy} text=${() => rest.curl("GET", "v1/deliveries", { query: { state } })} /></div>
    <${ErrorBox} error=${pages.error} retry=${pages.reload} />
    ${pages.items.length > 0 && html`<${Table} label="Deliveries" head=${["Created", "Destination", "State", "Attachments", ["Messages confirmed"], ["Attempts"]]}>
      ${pages.items.map((one) => html`<tr key=${one.id}>
        <td><a href=${href(["delivery", one.id])}><${Time} at=${one.created_at} /></a></td>
        <td><${Foreign} text=${one.destination} /></td><td><${State} of=${one.state} /></td>
        <td><${Foreign} text=${one.attachments.slice(0, 3).map((each) => each.name).join(", ")} />${one.attachments.length > 3 ? ` and ${one.attachments.length - 3} more` : ""}</td>
        <td class="n">${number(one.messages_sent)} of ${one.messages_total === null ? "?" : number(one.messages_total)}</td><td class="n">${one.attempts}</td></tr>`)}
    </${Table}>`}
    ${!pages.items.length && (pages.loading ? html`<${Loading} />` : html`<${Empty}>There are no deliveries${state && ` that are ${state}`}.</${Empty}>`)}
    <${More} pages=${pages} what="deliveries" />`;
}
