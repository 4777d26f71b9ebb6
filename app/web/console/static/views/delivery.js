// One delivery: its progress as it happens, and what can be done with it.

import { Action, Copy, ErrorBox, Facts, Foreign, Pending, Progress, State, Table, Time, href, html, navigate, size, useEvents, useEvery, useLoad } from "../ui.js";
import * as rest from "../rest.js";

const OPEN = ["queued", "sending"];
const INTERVAL = 500; // milliseconds; events tell of states, not of single messages

export default function Delivery({ steps: [id] }) {
  const path = rest.resource("deliveries", id ?? "");
  const { value, error, reload } = useLoad((signal) => rest.get(path, {}, signal), [path]);
  useEvents(["delivery.*"], (events) => events.some((event) => event.subject === id) && reload(), 100);
  const isOpen = OPEN.includes(value?.state);
  useEvery(INTERVAL, reload, isOpen);
  if (!value) return html`<h1>Delivery</h1><${Pending} error=${error} retry=${reload} />`;
  return html`<h1>Delivery to <${Foreign} text=${value.destination} /></h1>
    <p role="status"><${State} of=${value.state} /> <${Progress} done=${value.messages_sent} whole=${value.messages_total} label="Messages that the broker has confirmed" /> messages confirmed</p>
    <${ErrorBox} error=${error} />
    <p class="bar">
      ${isOpen && html`<${Action} label="Cancel" scope="operate" confirm="The receiver may already have a part of it." request=${{ method: "POST", path: `${path}/cancel` }} done=${reload} />`}
      ${["failed", "cancelled"].includes(value.state) && html`<${Action} label="Send again" scope="operate" primary request=${{ method: "POST", path: `${path}/retry` }} done=${reload} />`}
      ${!isOpen && html`<${Action} label="Delete" scope="delete" danger confirm="Delete the delivery and its content?" request=${{ method: "DELETE", path }} done=${() => navigate(["send"])} />`}
      <${Copy} text=${() => rest.curl("GET", path)} label="copy as curl" />
    </p>
    <${Facts} rows=${[
      ["Identifier", html`<code>${value.id}</code>`],
      ["Reason", value.reason && html`<${Foreign} text=${value.reason} />`],
      ["Attempts", value.attempts],
      ["Next attempt", value.next_attempt_at && html`<${Time} at=${value.next_attempt_at} />`],
      ["Created", html`<${Time} at=${value.created_at} />`],
      ["Changed", html`<${Time} at=${value.updated_at} />`],
      ["Subscribers", value.subscribers && (value.subscribers === "none" ? "none: the broker discarded messages, because nobody was subscribed" : value.subscribers)],
      ["May arrive twice", value.repeats],
      ["Header correlid", html`<code>${value.header_correl_id}</code>`],
      ["Message correlid", html`<code>${value.message_correl_id}</code>`],
    ]} />
    <h2>Attachments</h2>
    <${Table} label="Attachments" head=${["Kind", "Name", "Description", ["Size"], "SHA-256"]}>
      ${value.attachments.map((one) => html`<tr key=${one.correl_id}><td>${one.kind}</td>
        <td><${Foreign} text=${one.kind === "data-set" ? `${one.qualifier_1}.${one.name}` : one.name} /></td>
        <td><${Foreign} text=${one.description} /></td><td class="n">${size(one.size)}</td><td><code>${one.sha256.slice(0, 16)}…</code></td></tr>`)}
    </${Table}>
    <p><a href=${href(["send"])}>All deliveries</a></p>`;
}
