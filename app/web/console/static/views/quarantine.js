// Quarantine: the messages that cannot be read, why, and what can be done with them, one by one or many at once.

import { HexTrace } from "../components/hex_trace.js";
import { Action, Copy, Download, Empty, ErrorBox, Facts, Foreign, Loading, More, Pending, Progress, State, Table, Time, href, html, may, number, replaceQuery, size, useEvents, useLoad, usePages, useState } from "../ui.js";
import * as rest from "../rest.js";

const STATES = ["kept", "replayed", "dismissed"];

export default function Quarantine({ steps, query }) {
  return steps.length ? html`<${Entry} key=${steps[0]} id=${steps[0]} />` : html`<${List} query=${query} />`;
}

function List({ query }) {
  const state = query.get("state") ?? "kept";
  const source = query.get("source") ?? "";
  const asked = { state: state === "all" ? "" : state, source };
  const pages = usePages("v1/quarantine", asked, 100);
  const [chosen, setChosen] = useState(() => new Set());
  const [news, setNews] = useState(0);
  useEvents(["message.quarantined"], (events) => setNews((n) => n + events.length));
  const filter = (name) => (event) => { setChosen(new Set()); replaceQuery({ state, source, [name]: event.target.value }); };
  const again = () => { setNews(0); setChosen(new Set()); pages.reload(); };
  const toggle = (id) => setChosen((old) => { const next = new Set(old); next.delete(id) || next.add(id); return next; });
  const all = pages.items.length > 0 && pages.items.every((one) => chosen.has(one.id));
  return html`<h1>Quarantine</h1>
    <p>Physical messages that the gateway cannot read. Correct the cause, for example the source's settings, then replay them.</p>
    <div class="bar">
      <label>State<select value=${state} onChange=${filter("state")}>
        ${STATES.map((one) => html`<option key=${one}>${one}</option>`)}<option value="all">all</option></select></label>
      <label>Source<input type="text" value=${source} onChange=${filter("source")} /></label>
      <${Copy} text=${() => rest.curl("GET", "v1/quarantine", { query: asked })} />
      ${news > 0 && html`<button type="button" onClick=${again}>${number(news)} more quarantined: show</button>`}
    </div>
    <${ListOf} filters=${asked} pages=${pages} chosen=${chosen} toggle=${toggle} all=${all} setChosen=${setChosen} again=${again} />`;
}

function ListOf({ filters, pages, chosen, toggle, all, setChosen, again }) {
  const mayOperate = may("operate");
  const head = ["Received", "Source", "State", "Reason", "Field", ["Byte"], ["Size"]];
  if (!pages.items.length && !pages.error)
    return pages.loading ? html`<${Loading} />` : html`<${Empty}>No message is in quarantine${filters.state && ` as “${filters.state}”`}.</${Empty}>`;
  return html`<${ErrorBox} error=${pages.error} retry=${pages.reload} />
    ${mayOperate && html`<${Bulk} ids=${[...chosen]} done=${again} />`}
    <${Table} label="Quarantined messages" head=${mayOperate ? [html`<input type="checkbox" aria-label="Choose all that are shown" checked=${all} onChange=${() => setChosen(all ? new Set() : new Set(pages.items.map((one) => one.id)))} />`, ...head] : head}>
      ${pages.items.map((one) => html`<tr key=${one.id}>
        ${mayOperate && html`<td><input type="checkbox" aria-label=${`Choose the message of ${one.received_at}`} checked=${chosen.has(one.id)} onChange=${() => toggle(one.id)} /></td>`}
        <td><a href=${href(["quarantine", one.id])}><${Time} at=${one.received_at} /></a></td>
        <td><${Foreign} text=${one.source} /></td><td><${State} of=${one.state} /></td>
        <td><code>${one.code}</code> <${Foreign} text=${one.why} /></td><td><code><${Foreign} text=${one.row} empty="" /></code></td>
        <td class="n">${one.at ?? ""}</td><td class="n">${size(one.size)}</td></tr>`)}
    </${Table}>
    <${More} pages=${pages} what="messages" />`;
}

const MOST = 500; // identifiers of a request
const request = (label, ids) => ["POST", `v1/quarantine/${label.toLowerCase()}`, { json: { ids } }];

/** Replays or dismisses what is chosen, in requests of at most 500; what was not done is told with its reason. */
function Bulk({ ids, done }) {
  const [work, setWork] = useState(null);
  const [outcomes, setOutcomes] = useState(null);
  const [error, setError] = useState(null);
  const [asking, setAsking] = useState(false);
  const parts = Array.from({ length: Math.ceil(ids.length / MOST) }, (_, part) => ids.slice(part * MOST, (part + 1) * MOST));
  const run = async (label) => {
    const counted = new Map();
    setAsking(false);
    setError(null);
    for (const [index, part] of parts.entries()) {
      setWork({ label, done: index * MOST, all: ids.length });
      try {
        const answer = await (await rest.request(...request(label, part))).json();
        for (const { result, outcome } of answer.items) {
          const told = outcome ? `${result}: ${outcome.result}` : result;
          counted.set(told, (counted.get(told) ?? 0) + 1);
        }
      } catch (failed) {
        setError(failed);
        break;
      }
    }
    setWork(null);
    setOutcomes(counted);
    done();
  };
  const lines = (label) => parts.map((part) => rest.curl(...request(label, part))).join("\n");
  const isBusy = work !== null || !ids.length;
  return html`<div class="bar" role="group" aria-label="With those chosen">
      <span>${number(ids.length)} chosen</span>
      <button type="button" disabled=${isBusy} onClick=${() => run("Replay")}>Replay</button>
      ${asking
        ? html`<span class="asking" role="alertdialog" aria-label="Dismiss them?">Their bytes are deleted in time. <button type="button" class="danger" ref=${(button) => button?.focus()} onClick=${() => run("Dismiss")}>Yes: dismiss ${number(ids.length)}</button>
            <button type="button" onClick=${() => setAsking(false)}>No</button></span>`
        : html`<button type="button" class="danger" disabled=${isBusy} onClick=${() => setAsking(true)}>Dismiss</button>`}
      ${ids.length > 0 && html`<${Copy} text=${() => lines("Replay")} label="copy replay as curl" /><${Copy} text=${() => lines("Dismiss")} label="copy dismissal as curl" />`}
    </div>
    ${work && html`<p role="status">${work.label}: <${Progress} done=${work.done} whole=${work.all} label=${work.label} /></p>`}
    ${outcomes && html`<p role="status">${[...outcomes].map(([told, count]) => `${number(count)} ${told}`).join(", ")}</p>`}
    <${ErrorBox} error=${error} />`;
}

function Entry({ id }) {
  const path = `v1/quarantine/${encodeURIComponent(id)}`;
  const { value, error, reload } = useLoad((signal) => rest.get(path, {}, signal), [path]);
  const [outcome, setOutcome] = useState(null);
  if (!value) return html`<h1>Quarantined message</h1><${Pending} error=${error} retry=${reload} />`;
  const isKept = value.state === "kept";
  return html`<h1>Quarantined message</h1>
    <p><${State} of=${value.state} /> <code>${value.code}</code> <${Foreign} text=${value.why} /></p>
    <${ErrorBox} error=${error} />
    <p class="bar">
      <${Action} label="Replay" scope="operate" primary=${isKept} request=${{ method: "POST", path: `${path}/replay` }} done=${(told) => { setOutcome(told.outcome); reload(); }} />
      ${isKept && html`<${Action} label="Dismiss" scope="operate" danger confirm="Its bytes are deleted in time." request=${{ method: "DELETE", path }} done=${reload} />`}
      ${value.preview !== null && html`<${Download} path=${`${path}/body`} name="body.bin" />`}
    </p>
    ${outcome && html`<${Outcome} outcome=${outcome} />`}
    <${Facts} rows=${[
      ["Identifier", html`<code>${value.id}</code>`],
      ["Source", html`<${Foreign} text=${value.source} />`],
      ["Received", html`<${Time} at=${value.received_at} />`],
      ["Field", value.row && html`<code><${Foreign} text=${value.row} /></code>`],
      ["Byte", value.at],
      ["Message type", value.msg_type],
      ["Correlid", html`<code>${value.correl_id}</code>`],
      ["Size", size(value.size)],
      ...Object.entries(value.properties ?? {}).map(([name, text]) => [html`<${Foreign} text=${name} />`, html`<${Foreign} text=${text} />`]),
    ]} />
    <h2>Bytes</h2>
    ${value.preview === null ? html`<${Empty}>The bytes of this message are gone.</${Empty}>` : html`<${Bytes} path=${path} entry=${value} />`}
    <p><a href=${href(["quarantine"])}>All quarantined messages</a></p>`;
}

/** What became of a replayed message. */
const Outcome = ({ outcome }) => html`<div class="card" role="status">
  <p>Replayed: <${State} of=${outcome.result} /></p>
  ${outcome.entry && html`<p>It cannot be read this time either: <a href=${href(["quarantine", outcome.entry.id])}><${Foreign} text=${outcome.entry.why} /></a></p>`}
  ${outcome.attachments.map((one) => html`<p><a href=${href(["attachment", one.id])}><${Foreign} text=${one.name || one.id} /></a> <${State} of=${one.state} /> ${number(one.parts_received)} of ${one.parts_expected ?? "?"} parts</p>`)}
</div>`;

/** The whole body, and its fields up to the byte at which reading stopped. */
function Bytes({ path, entry }) {
  const { value, error } = useLoad(async (signal) => {
    const bytes = new Uint8Array(await (await rest.request("GET", `${path}/body`, { signal })).arrayBuffer());
    const frames = await rest.get(`${path}/trace`, {}, signal).catch((failed) => ({ failed }));
    return frames.failed ? { bytes, frames: null, failed: frames.failed } : { bytes, frames };
  }, [path]);
  if (!value) return html`<${Pending} error=${error} />`;
  return html`${entry.at != null && html`<p>Reading stopped at byte ${number(entry.at)}${entry.at < value.bytes.length ? ", which is marked" : ": the message ends there"}.</p>`}
    <${ErrorBox} error=${value.failed} />
    <${HexTrace} bytes=${value.bytes} frames=${value.frames} mark=${entry.at} />
    <p><${Copy} text=${() => rest.curl("GET", `${path}/trace`)} /></p>`;
}
