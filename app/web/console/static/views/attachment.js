// One attachment: what is known of it, what arrived and when, what it came with, and what it contains.

import * as rest from "../rest.js";
import { number, plural, size } from "../components/format.js";
import { GapBar } from "../components/gap_bar.js";
import { HexTrace } from "../components/hex_trace.js";
import { Preview } from "../components/preview.js";
import { Timeline } from "../components/timeline.js";
import { VirtualList } from "../components/virtual.js";
import { Action, Copy, Empty, ErrorBox, Facts, Foreign, Pending, State, Table, Time, html, href, navigate, useEffect, useEvents, useEvery, useLoad, useRef, useState } from "../ui.js";

const AGAIN = 1000; // milliseconds
const UNFINISHED = new Set(["receiving", "complete"]);
const DATA_SET_FORMATS = [
  ["parquet", "Parquet"], ["csv", "CSV"], ["json", "JSON"], ["ndjson", "JSON lines"], ["arrow", "Arrow stream"], ["arrow-file", "Arrow file"],
  ["dataset-json", "Dataset-JSON"], ["dataset-ndjson", "Dataset-NDJSON"], ["dsjc", "Compressed Dataset-JSON"],
  ["xpt", "SAS transport, version 8"], ["xpt-v5", "SAS transport, version 5"], ["sas", "SAS program and CSV"],
];
const PAGE = 200;
const ROW = 30; // pixels

/** Save content. With a key, a signed link lets the browser write it to disk while it comes. */
async function save(path, query) {
  const link = document.createElement("a");
  const plain = rest.address(path, query);
  if (rest.key()) {
    const made = await rest.post("v1/links", { path: `/${path}${plain.search}`, seconds: 60 });
    const { search } = new URL(made.url, plain);
    link.href = new URL(search, plain);
  } else {
    link.href = plain;
  }
  link.download = "";
  link.click();
}

function Downloads({ attachment }) {
  const [error, setError] = useState(null);
  const path = rest.resource("attachments", attachment.id, "content");
  const isFinished = attachment.state === "finished";
  const formats = attachment.kind === "data-set" ? DATA_SET_FORMATS.map(([format, name]) => [name, { format }]) : [["As it was sent", {}]];
  if (attachment.kind === "text-file") formats.push(["In UTF-8", { charset: "utf-8" }]);
  const offered = isFinished ? formats : attachment.state === "receiving" && attachment.kind ? [["What has arrived", { partial: true }]] : [];
  if (!offered.length) return null;
  const receipt = rest.resource("attachments", attachment.id, "receipt");
  return html`<h2>Download</h2><div class="bar">
    ${offered.map(([name, query]) => html`<span class="action" key=${name}>
      <button type="button" onClick=${() => save(path, query).then(() => setError(null), setError)}>${name}</button>
      <${Copy} text=${() => `${rest.curl("GET", path, { query })} -OJ`} label="curl" /></span>`)}
    ${attachment.receipt === "made" && html`<span class="action">
      <button type="button" onClick=${() => save(receipt).then(() => setError(null), setError)}>Receipt</button>
      <${Copy} text=${() => `${rest.curl("GET", receipt)} -OJ`} label="curl" /></span>`}
  </div><${ErrorBox} error=${error} />`;
}

/** By the state of its receipt: what is shown, and what to do with one. */
const RECEIPTS = {
  made: (id) => html`made; download it with the content, and verify both with <code>attachment-gateway receipt verify ${id}.receipt.cose --key receipts.pub.pem --file CONTENT</code>`,
  coming: () => "is being made",
  off: () => html`none: this gateway makes no receipts; its settings have no <code>[receipts]</code>`,
};

/** Properties of it, without what its sender left empty. */
const facts = (one) => [
  ["State", html`<${State} of=${one.state} />`],
  ["Reason", one.reason && html`<${Foreign} text=${one.reason.text} /> <code>${one.reason.code}</code>`],
  ["Kind", one.kind ?? "known when its header arrives"],
  ["Source", html`<a href=${href(["attachments"], { source: one.source })}><${Foreign} text=${one.source} /></a>`],
  ["Qualifier 1", one.qualifier_1 && html`<${Foreign} text=${one.qualifier_1} />`],
  ["Description", one.description && html`<${Foreign} text=${one.description} />`],
  ["Size", one.size === null ? `${size(one.progress.bytes_received)} received` : `${size(one.size)} (${plural(one.size, "byte")})`],
  ["Rows and columns", one.observations === null ? null : `${plural(one.observations, "row")}, ${plural(one.variables ?? 0, "column")}`],
  ["Content type", one.content_type && html`<code>${one.content_type}</code>`],
  ["SHA-256", one.sha256 && html`<code>${one.sha256}</code>`],
  ["File name", one.file_name && html`<${Foreign} text=${one.file_name} />`],
  ["Record length", one.record_length && number(one.record_length)],
  ["Announced size", one.announced_size && plural(one.announced_size, "byte")],
  ["Files", one.files?.length ? html`${number(one.files.length)}, one behind the other: ${one.files.slice(0, 20).map((file) => plural(file.size, "byte")).join(", ")}${one.files.length > 20 ? ", …" : ""}` : null],
  ["Asked for", one.requested && html`<${Foreign} text=${one.requested.text} />, last <${Time} at=${one.requested.asked_at} />
    ${one.requested.address ? html`at <${Foreign} text=${one.requested.address} />` : "by an event"} (${plural(one.requested.requests, "request")})${one.requested.ended
      ? html`; its sender says: <${Foreign} text=${one.requested.ended} />`
      : one.requested.next_at ? "" : "; not asked again"}`],
  ["Received again", one.progress.duplicates ? plural(one.progress.duplicates, "part") : null],
  ["First received", html`<${Time} at=${one.first_received_at} />`],
  ["Last received", html`<${Time} at=${one.last_received_at} />`],
  ["Finished", one.finished_at && html`<${Time} at=${one.finished_at} />`],
  ["Receipt", one.state === "finished" && RECEIPTS[one.receipt ?? "off"](one.id)],
  ["Correlid", html`<code>${one.correl_id}</code>`],
  ["Identifier", html`<code>${one.id}</code> <${Copy} text=${() => rest.curl("GET", rest.resource("attachments", one.id))} />`],
];

const QUESTIONS = {
  "dialect": "How numbers and texts are written",
  "count": "What the last message counts",
  "character-set": "Character set of the texts",
  "float-format": "Format of the numbers",
  "row-layout": "Layout of the rows",
  "record-ends": "What ends a record",
  "last-line-end": "End of the last line",
  "headers": "Headers before the content",
  "file-kind": "Whether the file is of lines",
  "messages": "Which messages belong to it",
};
const GROUNDS = {
  "only-reading": "the bytes have no other reading",
  "descriptor": "the message's descriptor says so",
  "announced": "it agrees with what the sender announced",
  "source": "earlier attachments of the source have shown it",
  "setting": "a setting of the source says so",
  "values": "only this reading gives the expected content",
  "preference": "nothing: the most common reading was chosen",
};

/** How its bytes were read where they allow several readings, what decided that, and what else would fit. */
function Evidence({ choices }) {
  if (!choices.length) return null;
  return html`<section aria-label="How it was read"><h2>How it was read</h2><${Table} label="Readings" head=${["Question", "Reading", "Decided by", "Other possible readings"]}>
    ${choices.map(({ question, reading, ground, others }) => html`<tr key=${[question, reading, ground].join()}>
      <td>${QUESTIONS[question] ?? question}</td><td><code>${reading}</code></td><td>${GROUNDS[ground] ?? ground}</td>
      <td>${others.length ? others.map((other, index) => html`${index ? ", " : ""}<code>${other}</code>`) : "none"}</td></tr>`)}
  </${Table}></section>`;
}

/** The bar of its parts, of which a piece can be looked at more closely. */
function Parts({ id, version, isUnfinished }) {
  const [piece, setPiece] = useState(null);
  const { value, error } = useLoad((signal) => rest.get(rest.resource("attachments", id, "parts"), piece ?? {}, signal), [id, version, piece]);
  if (!value) return html`<${Pending} error=${error} />`;
  if (!value.runs.length) return html`<${Empty}>${isUnfinished ? "No part has arrived." : "The gateway no longer knows its single parts."}</${Empty}>`;
  return html`<${GapBar} parts=${value} onZoom=${(first, last) => setPiece({ first, last })} label="Parts by sequence number" />
    <p class="hint">${piece
      ? html`Parts ${number(value.first)} to ${number(value.last)}. <button type="button" class="quiet" onClick=${() => setPiece(null)}>Show all</button>`
      : "Click to zoom in. With the keyboard: arrow keys, then Enter."}</p>`;
}

/** The text of an application message, or the values of its map; null for other bytes. */
function said({ text, values }) {
  return text ?? values?.map((each) => `${each.type} ${each.value}`).join(", ") ?? null;
}

function Came({ attachment }) {
  const { message } = attachment;
  const { value, error } = useLoad((signal) => (message ? rest.get(rest.resource("messages", message), {}, signal) : Promise.resolve(null)), [message, attachment.state]);
  if (!message) return html`<${Empty}>Its header has not arrived, so its message is not known.</${Empty}>`;
  if (!value) return html`<${Pending} error=${error} />`;
  const text = value.application_message;
  return html`<${Facts} rows=${[
    ["Message", html`<a href=${href(["attachments"], { message: value.id })}><code>${value.id}</code></a>`],
    ["Received", html`<${Time} at=${value.received_at} />`],
    ["Complete", value.complete_at ? html`<${Time} at=${value.complete_at} />` : "not yet"],
    ["Application message", text && (said(text) === null ? plural(text.size, "byte") : html`<${Foreign} text=${said(text).slice(0, 2000)} />`)],
  ]} />
    <ol class="siblings" aria-label="Attachments of this message">${value.attachments.map((each) => html`<li key=${each.id}>
      ${each.id === attachment.id
        ? html`<strong aria-current="true"><${Foreign} text=${each.name} empty="(no name)" /></strong> (this one)`
        : html`<a href=${href(["attachment", each.id])}><${Foreign} text=${each.name} empty="(no name)" /></a>`}
      ${each.state ? html` <${State} of=${each.state} />` : " nothing of it has arrived"} <span class="hint">${each.size === null ? "" : size(each.size)}</span>
    </li>`)}</ol>`;
}

/** One physical message: its descriptor, and its bytes explained. */
function Explained({ path }) {
  const { value, error } = useLoad(async (signal) => {
    const [message, frames] = await Promise.all([
      rest.get(path, {}, signal),
      rest.get(`${path}/trace`, {}, signal).catch((failed) => ({ failed })),
    ]);
    return { message, frames, bytes: Uint8Array.from(atob(message.body), (letter) => letter.charCodeAt(0)) };
  }, [path]);
  if (!value) return html`<${Pending} error=${error} />`;
  const { message, frames, bytes } = value;
  const shown = (found) => (typeof found === "object" ? JSON.stringify(found) : String(found));
  return html`<details><summary>Descriptor</summary>
      <${Facts} rows=${Object.entries(message.descriptor).filter(([, found]) => found !== null && found !== "").map(([name, found]) => [name, html`<${Foreign} text=${shown(found)} />`])} /></details>
    ${frames.failed && html`<p class="hint">The bytes cannot be decoded: ${frames.failed.message}</p>`}
    <${HexTrace} bytes=${bytes} frames=${frames.failed ? null : frames} />
    <p><${Copy} text=${() => rest.curl("GET", `${path}/trace`)} /></p>`;
}

function PhysicalMessages({ id, version }) {
  const path = rest.resource("attachments", id, "physical-messages");
  const [chosen, setChosen] = useState(null);
  const [state, set] = useState({ error: null });
  const reading = useRef({ known: new Set(), items: [], cursor: undefined, isBusy: false, isWhole: false, isGone: false }).current;
  /** Read the page at `cursor` and those behind it until something new is found; at the end `cursor` stays, for later ones. */
  const more = async () => {
    if (reading.isBusy) return;
    reading.isBusy = true;
    try {
      let added = [];
      do {
        const page = await rest.get(path, { limit: PAGE, cursor: reading.cursor });
        added = page.items.filter((each) => !reading.known.has(each.position));
        for (const each of added) reading.known.add(each.position);
        reading.items.push(...added);
        reading.isGone = page.gone;
        reading.isWhole = page.next === null;
        if (!reading.isWhole) reading.cursor = page.next;
      } while (!added.length && !reading.isWhole);
      set({ error: null });
    } catch (error) {
      set({ error });
    }
    reading.isBusy = false;
  };
  useEffect(() => void more(), [version]);
  const { error } = state;
  const { items } = reading;
  return html`<${ErrorBox} error=${error} retry=${more} />
    <div class="physical"><div class="physical-side">
      <${VirtualList} className="physical-rows mono" label="Physical messages" count=${items.length} rowHeight=${ROW} rowCount=${reading.isWhole ? items.length : -1}
        onRange=${(_, last) => last >= items.length - 50 && !reading.isWhole && more()}
        row=${(index) => {
          const each = items[index];
          return html`<button type="button" class="quiet" aria-pressed=${chosen === each.position ? "true" : "false"} onClick=${() => setChosen(each.position)}>
            ${each.kind}${each.sequence === null ? "" : ` ${number(each.sequence)}`}</button>
            <span>${size(each.size)}</span><span><${Time} at=${each.received_at} /></span>`;
        }} />
      <p class="hint" role="status">${plural(items.length, "message")}${reading.isWhole ? "" : " shown; more load as you scroll"}${reading.isGone ? "; the journal no longer has all of them" : ""}</p></div>
      <div class="physical-detail">${chosen ? html`<${Explained} key=${chosen} path=${`${path}/${chosen}`} />` : html`<${Empty}>Choose a message to see its bytes decoded.</${Empty}>`}</div>
    </div>`;
}

export default function Attachment({ steps }) {
  const id = steps[0] ?? "";
  return html`<${One} key=${id} id=${id} />`;
}

/** The messages of what turned out to be an application message. */
const Belongs = ({ error }) => error?.members?.messages?.map(({ id }) => html`<section key=${id} aria-label="Its message">
  <h2>Its message</h2><${Came} attachment=${{ message: id }} /></section>`);

function One({ id }) {
  const path = rest.resource("attachments", id);
  const { value, error, reload } = useLoad((signal) => rest.get(path, {}, signal), [id]);
  const [isExplained, setExplained] = useState(false);
  useEvents(["attachment.*", "message.complete"], (events) => events.some((event) => event.subject === id || event.subject === value?.message) && reload());
  const isUnfinished = value && error?.status !== 410 && UNFINISHED.has(value.state);
  useEvery(AGAIN, reload, Boolean(isUnfinished) || value?.receipt === "coming");
  const progress = value?.progress;
  const version = value ? [value.state, progress.parts_received, progress.parts_expected, progress.duplicates, value.message, value.receipt].join(" ") : "";
  const timeline = useLoad((signal) => (version ? rest.get(`${path}/timeline`, {}, signal) : Promise.resolve(null)), [id, version]);
  if (!value) return html`<h1>Attachment</h1><${Pending} error=${error} retry=${reload} /><${Belongs} error=${error} />`;
  return html`<p><a href=${href(["attachments"])}>All attachments</a></p>
    <h1><${Foreign} text=${value.name} empty=${value.kind ? "Attachment without a name" : "Without a header"} /></h1>
    <${ErrorBox} error=${error} retry=${reload} /><${Belongs} error=${error} />
    <h2>Parts</h2><${Parts} id=${id} version=${version} isUnfinished=${isUnfinished} />
    ${value.warnings.length > 0 && html`<ul class="warnings" aria-label="Warnings">${value.warnings.map((warning) => html`<li><${Foreign} text=${warning} /></li>`)}</ul>`}
    <div class="two">
      <section aria-label="Properties"><h2>Properties</h2><${Facts} rows=${facts(value)} /></section>
      <section aria-label="Timeline"><h2>Timeline</h2>
        ${timeline.value ? html`<${Timeline} items=${timeline.value.items} />` : html`<${ErrorBox} error=${timeline.error} />`}
        <h2>Its message</h2><${Came} attachment=${value} /></section>
    </div>
    <${Evidence} choices=${value.evidence} />
    <h2>Preview</h2><${Preview} attachment=${value} version=${version} />
    <${Downloads} attachment=${value} />
    <h2>Physical messages</h2>
    ${isExplained ? html`<${PhysicalMessages} id=${id} version=${version} />` : html`<button type="button" onClick=${() => setExplained(true)}>Show the physical messages</button>`}
    <h2>Remove</h2>
    <p><${Action} label="Delete" scope="delete" danger confirm="Delete this attachment and its content?" request=${{ method: "DELETE", path }} done=${() => navigate(["attachments"])} /></p>`;
}
