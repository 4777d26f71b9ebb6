// What the gateway does at present: sources, destinations, what waits, the journal, and the last hour.

import * as rest from "../rest.js";
import { Chart } from "../components/chart.js";
import { Sparkline } from "../components/sparkline.js";
import { duration, number, plural, rate, size } from "../components/format.js";
import { Copy, Empty, ErrorBox, Facts, Foreign, Loading, Time, age, html, href, useEvents, useEvery, useLoad, useMemo, useTick } from "../ui.js";

const AGAIN = 2000; // milliseconds

/** Since when a connection is as it is, in words. */
function Connection({ connected, since, error }) {
  const state = connected ? "connected" : "disconnected";
  return html`<p><span class="state ${state}">${connected ? "connected" : "not connected"}</span>
    ${since && html` for ${age(since)}`}${error && html`: <${Foreign} text=${error} />`}</p>`;
}

function Source({ source, seconds }) {
  const { messages_per_second: messages, last_message_at: last } = source;
  const still = last ? html`no message since <${Time} at=${last} /> (${age(last)})` : "no message yet";
  const list = (state) => (source[state]
    ? html`<a href=${href(["attachments"], { source: source.name, state })}>${number(source[state])}</a>` : "0");
  return html`<section class="card" aria-label="Source ${source.name}">
    <h3><${Foreign} text=${source.name} /> <span class="hint">${source.adapter}${source.framing && `, ${source.framing}`}</span></h3>
    <${Connection} ...${source} />
    <${Recent} values=${source.messages_per_point} seconds=${seconds} />
    <${Facts} rows=${[
      ["Rate", messages ? `${number(messages)} messages/s, ${rate(source.bytes_per_second, true)}` : still],
      ["Backlog", source.backlog === null ? null : plural(source.backlog, "message")],
      ["Without header", source.unannounced
        ? html`<a href=${href(["attachments"], { source: source.name, state: "receiving", announced: false })}>${number(source.unannounced)}</a>` : null],
      ["Receiving", list("receiving")],
      ["Complete", source.complete ? list("complete") : null],
      ["Finished", list("finished")],
      ["Quarantined", list("quarantined")],
    ]} />
  </section>`;
}

/** The last hour of a source. */
function Recent({ values, seconds }) {
  const most = 3600 / seconds;
  const all = values.reduce((sum, one) => sum + one, 0);
  const text = all ? `${plural(all, "message")} in the last hour, at most ${number(Math.max(...values))} in ${duration(seconds)}` : "No message in the last hour";
  return html`<${Sparkline} values=${values} most=${most} text=${text} /><p class="hint">${text}</p>`;
}

function Destination({ destination }) {
  return html`<section class="card" aria-label="Destination ${destination.name}">
    <h3><${Foreign} text=${destination.name} /></h3>
    <${Connection} ...${destination} />
    <${Facts} rows=${[
      ["Rate", `${number(destination.messages_per_second)} messages/s`],
      ...["queued", "sending", "sent", "failed"].map((state) => [state[0].toUpperCase() + state.slice(1), number(destination[state])]),
    ]} />
  </section>`;
}

/** The numbers of partial attachments by how long nothing has come for them. */
function Ages({ ages }) {
  if (!ages.some((age) => age.count)) return html`<${Empty}>No attachment is being received.</${Empty}>`;
  const most = Math.max(...ages.map((age) => age.count));
  const name = (seconds, index) => (seconds === null ? `longer than ${duration(ages[index - 1].under_seconds)}` : `less than ${duration(seconds)}`);
  return html`<table class="ages"><thead><tr><th scope="col">No message for</th><th scope="col" class="n">Attachments</th><td></td></tr></thead><tbody>
    ${ages.map((age, index) => html`<tr><td>${name(age.under_seconds, index)}</td><td class="n">${number(age.count)}</td>
      <td><svg width="60" height="10" aria-hidden="true"><rect width=${(60 * age.count) / most} height="10" /></svg></td></tr>`)}
  </tbody></table>`;
}

function History({ history }) {
  const { points, seconds_per_point: seconds } = history;
  const [times, series] = useMemo(() => [
    points.map((point) => new Date(point.time) / 1000),
    [
      { label: "messages", colour: "--accent", values: points.map((point) => point.messages), shown: number },
      { label: "bytes", colour: "--good", scale: "bytes", values: points.map((point) => point.size), shown: size },
    ],
  ], [points.length, points.at(-1)?.messages, points.at(-1)?.time]);
  const sum = (name) => points.reduce((all, point) => all + point[name], 0);
  if (!points.length) return html`<${Empty}>There is no history yet: it begins with the gateway's start.</${Empty}>`;
  const text = `The last hour: ${plural(sum("messages"), "message")}, ${size(sum("size"))}, ${number(sum("finished"))} finished, ${number(sum("quarantined"))} quarantined`;
  return html`<${Chart} seconds=${3600} times=${times} series=${series} text=${text} />
    <p class="hint">${text}; a point is ${duration(seconds)}.</p>`;
}

function Disk({ journal }) {
  if (!journal) return null;
  const isTight = journal.free_bytes < 2 * journal.reserve_bytes;
  return html`<section class="card" aria-label="Journal"><h3>Journal</h3>
    ${isTight && html`<p><span class="state quarantined">nearly full</span> receiving pauses when less than ${size(journal.reserve_bytes)} are free</p>`}
    <${Facts} rows=${[["Size", `${size(journal.size)} in ${plural(journal.segments, "segment")}`], ["Free", size(journal.free_bytes)], ["Reserve", size(journal.reserve_bytes)]]} />
  </section>`;
}

export default function Overview() {
  const { value, error, reload } = useLoad((signal) => rest.get("v1/summary", {}, signal), []);
  useEvents(["attachment.*", "message.*", "delivery.*"], reload, 1000);
  useEvery(AGAIN, reload);
  useTick(1000);
  return html`<h1>Overview</h1><${ErrorBox} error=${error} retry=${reload} />
    ${!value ? html`<${Loading} when=${!error} />` : html`
      <div class="counts">
        ${Object.entries(value.attachments).map(([state, count]) => html`<a href=${href(["attachments"], { state })} class="count-of ${count ? state : ""}">
          <strong>${number(count)}</strong> ${state}</a>`)}
        ${value.unannounced > 0 && html`<a href=${href(["attachments"], { state: "receiving", announced: false })} class="count-of receiving">
          <strong>${number(value.unannounced)}</strong> without a header</a>`}
        <a href=${href(["quarantine"])} class="count-of ${value.quarantine.open ? "quarantined" : ""}"><strong>${number(value.quarantine.open)}</strong> messages in quarantine</a>
      </div>
      <div class="ends">
        <section aria-label="Sources"><h2>Sources</h2>
          ${value.sources.length ? "" : html`<${Empty}>No source is configured.</${Empty}>`}
          <div class="cards">${value.sources.map((source) => html`<${Source} key=${source.name} source=${source} seconds=${value.history.seconds_per_point} />`)}</div></section>
        <section aria-label="Destinations"><h2>Destinations</h2>
          ${value.destinations.length ? "" : html`<${Empty}>No destination is configured.</${Empty}>`}
          <div class="cards">${value.destinations.map((each) => html`<${Destination} key=${each.name} destination=${each} />`)}</div></section>
      </div>
      <h2>The last hour</h2><${History} history=${value.history} />
      <h2>What waits</h2>
      <div class="cards"><section class="card" aria-label="Unfinished attachments"><h3>Unfinished attachments</h3><${Ages} ages=${value.partials_by_age} /></section>
        <${Disk} journal=${value.journal} /></div>
      <p class="hint">As of <${Time} at=${value.time} />. <${Copy} text=${() => rest.curl("GET", "v1/summary")} /></p>`}`;
}
