// Quarantine: the messages that cannot be read, why, and what can be done with them, one by one or many at once.

import { HexTrace } from "../components/hex_trace.js";
import { Action, Choice, Copy, Download, Empty, ErrorBox, Facts, Fold, Foreign, Loading, More, Pending, Progress, State, Table, Time, href, html, may, number, replaceQuery, size, useEffect, useEvents, useLoad, usePages, useRef, useState } from "../ui.js";
import * as rest from "../rest.js";

const PATH = "v1/quarantine";
const GROUPS = `${PATH}/groups`;
const STATES = ["kept", "replayed", "dismissed"];
const MOST = 500; // identifiers of a request, and groups

export default function Quarantine({ steps, query }) {
  return steps.length ? html`<${Entry} key=${steps[0]} id=${steps[0]} />` : html`<${List} query=${query} />`;
}

function List({ query }) {
  const given = (name) => query.get(name) ?? "";
  const state = given("state") || "kept";
  const asked = { state: state === "all" ? "" : state, source: given("source"), code: given("code"), why: given("why") };
  const inputs = JSON.stringify(asked);
  const pages = usePages(PATH, asked, 100);
  const groups = useLoad((signal) => rest.get(GROUPS, { ...asked, limit: MOST }, signal), [inputs]);
  const every = useLoad((signal) => rest.get(GROUPS, { state: asked.state, limit: MOST }, signal), [asked.state]);
  const [chosen, setChosen] = useState(() => new Set());
  const [news, setNews] = useState(0);
  useEffect(() => setChosen(new Set()), [inputs]);
  const again = () => { setNews(0); setChosen(new Set()); pages.reload(); groups.reload(); every.reload(); };
  const bulk = useBulk(again);
  useEvents(["message.quarantined"], (events) => { setNews((n) => n + events.length); if (!bulk.work) { groups.reload(); every.reload(); } }, 2000);
  const filter = (name) => (value) => replaceQuery({ ...Object.fromEntries(query), [name]: value });
  const isFiltered = [...query.keys()].length > 0;
  const values = (name) => [...new Set(every.value?.items.map((group) => group[name]))].sort();
  return html`<h1>Quarantine</h1>
    <p>Physical messages that the gateway cannot read. Correct the cause, for example the source's settings, then replay them.</p>
    <${Fold} label="Filters"><div class="bar">
      <label>State<select value=${state} onChange=${(event) => filter("state")(event.target.value)}>
        ${STATES.map((one) => html`<option key=${one} value=${one} selected=${one === state}>${one}</option>`)}<option value="all" selected=${state === "all"}>all</option></select></label>
      <${Choice} label="Source" value=${asked.source} values=${values("source")} change=${filter("source")} />
      <${Choice} label="Code" value=${asked.code} values=${values("code")} change=${filter("code")} />
      ${isFiltered && html`<button type="button" onClick=${() => replaceQuery({})}>No filter</button>`}
    </div></${Fold}>
    <h2>${asked.why ? "One reason" : "By reason"}</h2>
    <${Groups} loaded=${groups} asked=${asked} state=${state} bulk=${bulk} />
    <${Outcomes} bulk=${bulk} />
    <h2>Messages</h2>
    ${news > 0 && html`<p><button type="button" onClick=${again}>${number(news)} more quarantined: show</button></p>`}
    <${ListOf} filters=${asked} pages=${pages} chosen=${chosen} setChosen=${setChosen} bulk=${bulk} />`;
}

/** The entries by source, code and reason, with what can be done with all of a group. */
function Groups({ loaded: { value, error, reload }, asked, state, bulk }) {
  if (!value) return html`<${Pending} error=${error} retry=${reload} />`;
  const mayAct = may("operate") && asked.state === "kept";
  const head = [["Messages"], "Source", "Code", "Reason", "First", "Last"];
  const shown = value.items.length;
  return html`<${ErrorBox} error=${error} retry=${reload} />
    ${shown > 0 && html`<div class="groups"><${Table} label="Groups" head=${mayAct ? [...head, "All of them"] : head}>
      ${value.items.map((group) => {
        const { source, code, why } = group;
        return html`<tr key=${`${source} ${code} ${why}`}>
          <td class="n"><strong>${number(group.count)}</strong></td><td><${Foreign} text=${source} /></td><td><code>${code}</code></td>
          <td>${asked.why ? html`<${Foreign} text=${why} />` : html`<a href=${href(["quarantine"], { state: state === "kept" ? "" : state, source, code, why })}><${Foreign} text=${why} empty="(no reason)" /></a>`}</td>
          <td><${Time} at=${group.first_received_at} /></td><td><${Time} at=${group.last_received_at} /></td>
          ${mayAct && html`<td><${Buttons} count=${group.count} disabled=${bulk.work !== null} about=${`${code}: ${why}`}
            act=${(action) => bulk.run(action, ofGroup(action, { source, code, why }), group.count)}
            line=${(action) => rest.curl(...request(action, { group: { source, code, why } }))} /></td>`}</tr>`;
      })}</${Table}></div>`}
    <p class="more"><span role="status">${number(value.entries)}${value.is_exact ? "" : "+"} ${value.entries === 1 ? "message" : "messages"} in ${number(value.groups)} ${value.groups === 1 ? "group" : "groups"}${shown < value.groups ? `, of which the largest ${number(shown)} are shown` : ""}</span>
      ${asked.why && html`<a href=${href(["quarantine"], { state: state === "kept" ? "" : state })}>All reasons</a>`}
      <${Copy} text=${() => rest.curl("GET", GROUPS, { query: asked })} /></p>`;
}

function ListOf({ filters, pages, chosen, setChosen, bulk }) {
  const mayOperate = may("operate");
  const head = ["Received", "Source", "State", "Reason", "Field", ["Byte"], ["Size"]];
  const toggle = (id) => setChosen((old) => { const next = new Set(old); next.delete(id) || next.add(id); return next; });
  if (!pages.items.length && !pages.error)
    return pages.loading ? html`<${Loading} />` : html`<${Empty}>No message is in quarantine${filters.state && ` as “${filters.state}”`}${filters.source || filters.code || filters.why ? " with these properties" : ""}.</${Empty}>`;
  const all = pages.items.every((one) => chosen.has(one.id));
  const ids = [...chosen];
  return html`<${ErrorBox} error=${pages.error} retry=${pages.reload} />
    ${mayOperate && html`<div class="bar" role="group" aria-label="With those chosen"><span>${number(ids.length)} chosen</span>
      <${Buttons} count=${ids.length} disabled=${bulk.work !== null || !ids.length} act=${(action) => bulk.run(action, inParts(action, ids), ids.length)}
        line=${(action) => parts(ids).map((part) => rest.curl(...request(action, { ids: part }))).join("\n")} /></div>`}
    <${Table} label="Quarantined messages" head=${mayOperate ? [html`<input type="checkbox" aria-label="Choose all that are shown" checked=${all} onChange=${() => setChosen(all ? new Set() : new Set(pages.items.map((one) => one.id)))} />`, ...head] : head}>
      ${pages.items.map((one) => html`<tr key=${one.id}>
        ${mayOperate && html`<td><input type="checkbox" aria-label=${`Choose the message of ${one.received_at}`} checked=${chosen.has(one.id)} onChange=${() => toggle(one.id)} /></td>`}
        <td><a href=${href(["quarantine", one.id])}><${Time} at=${one.received_at} /></a></td>
        <td><${Foreign} text=${one.source} /></td><td><${State} of=${one.state} /></td>
        <td><code>${one.code}</code> <${Foreign} text=${one.why} /></td><td><code><${Foreign} text=${one.row} empty="" /></code></td>
        <td class="n">${one.at ?? ""}</td><td class="n">${size(one.size)}</td></tr>`)}
    </${Table}>
    <${More} pages=${pages} what="messages" />
    <p><${Copy} text=${() => rest.curl("GET", PATH, { query: filters })} /></p>`;
}

const request = (action, json) => ["POST", `${PATH}/${action}`, { json }];
const answered = (action, json) => rest.post(`${PATH}/${action}`, json);
const parts = (ids) => Array.from({ length: Math.ceil(ids.length / MOST) }, (_, part) => ids.slice(part * MOST, (part + 1) * MOST));

async function* inParts(action, ids) {
  for (const part of parts(ids)) yield await answered(action, { ids: part });
}

async function* ofGroup(action, group) {
  let cursor = null;
  do {
    const answer = await answered(action, { group, cursor });
    yield answer;
    cursor = answer.next;
  } while (cursor);
}

/**
 * Replays or dismisses many, request by request. `run` gets the answers of an asynchronous generator, and how many
 * entries are meant. `work` is null, or what is being done; `outcomes` counts what became of the entries.
 */
function useBulk(done) {
  const [work, setWork] = useState(null);
  const [outcomes, setOutcomes] = useState(null);
  const [error, setError] = useState(null);
  const isStopped = useRef(false);
  useEffect(() => () => { isStopped.current = true; }, []);
  const run = async (action, answers, all) => {
    const counted = new Map();
    let count = 0;
    isStopped.current = false;
    setError(null);
    setOutcomes(null);
    setWork({ action, done: 0, all });
    try {
      for await (const answer of answers) {
        for (const { result, outcome } of answer.items) {
          const told = outcome ? `${result}: ${outcome.result}` : result;
          counted.set(told, (counted.get(told) ?? 0) + 1);
        }
        count += answer.items.length;
        setWork({ action, done: count, all: Math.max(all, count) });
        if (isStopped.current) break;
      }
    } catch (failed) {
      setError(failed);
    }
    setWork(null);
    setOutcomes(counted);
    done();
  };
  return { work, outcomes, error, run, stop: () => { isStopped.current = true; } };
}

const Outcomes = ({ bulk: { work, outcomes, error, stop } }) => html`
  ${work && html`<p role="status">${work.action === "replay" ? "Replay" : "Dismiss"}: <${Progress} done=${work.done} whole=${work.all} label=${work.action} />
    <button type="button" onClick=${stop}>Stop</button></p>`}
  ${outcomes && html`<p role="status">${[...outcomes].map(([told, count]) => `${number(count)} ${told}`).join(", ") || "There was nothing to do."}</p>`}
  <${ErrorBox} error=${error} />`;

/** Buttons that replay and dismiss `count` entries, and their requests as lines with curl. */
function Buttons({ count, disabled, act, line, about }) {
  const [isAsking, setAsking] = useState(false);
  const named = (word) => (about ? `${word} all of ${about}` : undefined);
  if (isAsking)
    return html`<span class="asking" role="alertdialog" aria-label="Dismiss them?" onKeyDown=${(event) => event.key === "Escape" && setAsking(false)}>Their bytes will be deleted.
      <button type="button" class="danger" ref=${(button) => button?.focus()} onClick=${() => { setAsking(false); act("dismiss"); }}>Yes: dismiss ${number(count)}</button>
      <button type="button" onClick=${() => setAsking(false)}>No</button></span>`;
  return html`<span class="action"><button type="button" disabled=${disabled} aria-label=${named("Replay")} onClick=${() => act("replay")}>Replay</button>
    <button type="button" class="danger" disabled=${disabled} aria-label=${named("Dismiss")} onClick=${() => setAsking(true)}>Dismiss</button>
    ${count > 0 && html`<${Copy} text=${() => line("replay")} label=${about ? "curl" : "copy replay as curl"} />${!about && html`<${Copy} text=${() => line("dismiss")} label="copy dismissal as curl" />`}`}</span>`;
}

function Entry({ id }) {
  const path = rest.resource("quarantine", id);
  const { value, error, reload } = useLoad((signal) => rest.get(path, {}, signal), [path]);
  const [outcome, setOutcome] = useState(null);
  if (!value) return html`<h1>Quarantined message</h1><${Pending} error=${error} retry=${reload} />`;
  const isKept = value.state === "kept";
  return html`<h1>Quarantined message</h1>
    <p><${State} of=${value.state} /> <code>${value.code}</code> <${Foreign} text=${value.why} /></p>
    <${ErrorBox} error=${error} />
    <p class="bar">
      <${Action} label="Replay" scope="operate" primary=${isKept} request=${{ method: "POST", path: `${path}/replay` }} done=${(told) => { setOutcome(told.outcome); reload(); }} />
      ${isKept && html`<${Action} label="Dismiss" scope="operate" danger confirm="Its bytes will be deleted." request=${{ method: "DELETE", path }} done=${reload} />`}
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
    ${value.preview === null ? html`<${Empty}>The bytes of this message have been deleted, or are not archived yet.</${Empty}>` : html`<${Bytes} path=${path} entry=${value} />`}
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
