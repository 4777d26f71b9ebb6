// Pipeline: the runs on Spark, how far they are behind, what they have committed to the tables, and what they counted.

import { Copy, Empty, ErrorBox, Foreign, Loading, State, Table, Time, href, html, numbers, session, size, time, useEvery, useLoad } from "../ui.js";
import { duration, plural } from "../components/format.js";
import * as rest from "../rest.js";

const EVERY = 5000; // milliseconds
const HOURS = 200;
const RUNS = 50;

export default function Pipeline() {
  const { value, error, loading, reload } = useLoad(overview, []);
  useEvery(EVERY, reload);
  return html`<h1>Pipeline</h1>
    <p>Where Spark assembles, each batch commits a version of the tables that it adds to. The state is read every ${EVERY / 1000} seconds.</p>
    <${ErrorBox} error=${error} retry=${reload} />
    ${!value && loading && html`<${Loading} />`}
    ${value?.lag && html`<p role="status">${value.lag.segments ? html`<strong>${size(value.lag.size)} of the journal wait</strong> in ${plural(value.lag.segments, "sealed segment")}, for ${duration(value.lag.seconds)}.` : "All sealed segments of the journal have been processed."}</p>`}
    ${value?.runs.length > 0 && html`<h2>Batches</h2><${Runs} runs=${value.runs} />`}
    ${value && !value.tables.length && html`<${Empty}>The pipeline has not built any table yet. With <code>assembler = "embedded"</code> the gateway assembles by itself, and there are no batches.</${Empty}>`}
    ${value?.tables.length > 0 && html`
      <h2>Newest commits</h2><${Tables} tables=${value.tables} journal=${value.journal} />
      ${value.quality && html`<h2>By source and hour</h2><${Quality} rows=${value.quality} />`}`}`;
}

/** Read the newest runs, the lag, all tables, each one's place in the journal, and the newest hours of the table `quality`. */
async function overview(signal) {
  const { sources, destinations } = session.caller;
  const isLimited = sources !== null || destinations !== null; // Runs are about all sources.
  const tables = [];
  let cursor = null;
  do {
    const page = await rest.get("v1/tables", { limit: 500, cursor }, signal);
    tables.push(...page.items);
    cursor = page.next;
  } while (cursor);
  tables.sort((one, other) => other.modified_at.localeCompare(one.modified_at));
  const newest = tables.find((table) => table.name.includes("."));
  const quality = tables.find((table) => table.name === "quality");
  const [reached, hours, runs, pipeline] = await Promise.all([
    newest && rest.get(rest.resource("tables", newest.name), {}, signal).then((one) => one.reached),
    quality && rest.get("v1/tables/quality/rows", { format: "json", offset: Math.max(0, quality.row_count - HOURS), limit: HOURS }, signal),
    isLimited ? null : rest.get("v1/pipeline/runs", { limit: RUNS }, signal),
    isLimited ? null : rest.get("v1/pipeline", {}, signal),
  ]);
  return {
    tables, journal: reached ?? null, quality: hours?.sort((one, other) => other.hour.localeCompare(one.hour)),
    runs: runs?.items ?? [], lag: pipeline?.lag,
  };
}

const Runs = ({ runs }) => html`<div role="log"><${Table} label="Batches" head=${["Began", "Kind", "State", ["Took"], ["Messages"], ["Messages/s"], ["Attachments"], ["Refused"], ["Quarantined"], ["Rows"]]}>
    ${runs.map((one) => html`<tr key=${one.id}><td><${Time} at=${one.began_at} /></td><td>${one.kind}</td><td style=${{ minWidth: one.error ? "14rem" : "" }}><${State} of=${one.state} />${one.error && html` <${Foreign} text=${one.error} />`}</td>
      <td class="n">${one.seconds === null ? "" : duration(one.seconds)}</td>${numbers(one.messages, one.seconds > 0 ? one.messages / one.seconds : null, one.attachment_count, one.refused, one.quarantined, one.row_count)}</tr>`)}
  </${Table}></div>
  <p><${Copy} text=${() => rest.curl("GET", "v1/pipeline/runs")} /></p>`;

const Tables = ({ tables, journal }) => html`
  ${journal && html`<p>The newest data set was at segment ${journal.segment}, batch ${journal.batch}, row ${journal.row} of the journal.</p>`}
  <${Table} label="Newest commits" head=${["Table", ["Version"], "Committed", ["Rows"], ["Files"], ["Size"]]}>
    ${tables.map((one) => html`<tr key=${one.name}><td><a href=${href(["tables", one.name])}><${Foreign} text=${one.name} /></a></td><td class="n">${one.version}</td>
      <td><${Time} at=${one.modified_at} /></td>${numbers(one.row_count, one.files)}<td class="n">${size(one.size)}</td></tr>`)}
  </${Table}>
  <p><${Copy} text=${() => rest.curl("GET", "v1/tables")} /></p>`;

const Quality = ({ rows }) => html`<${Table} label="By source and hour" head=${["Hour", "Source", ["Messages"], ["Per second"], ["Duplicates"], ["Conflicts"], ["Begun"], ["Completed"], ["Quarantined"], ["Missing ranges"], ["Longest, s"]]}>
    ${rows.map((one) => html`<tr key=${`${one.source} ${one.hour}`}><td><time datetime=${one.hour}>${time(one.hour).slice(0, 16)}</time></td><td><${Foreign} text=${one.source} /></td>
      ${numbers(one.messages, one.messages / 3600, one.duplicates, one.conflicts, one.attachments_begun, one.attachments_completed, one.attachments_quarantined, one.missing_ranges, one.longest_seconds)}</tr>`)}
  </${Table}>
  <p>${rows.length >= HOURS ? `The last ${HOURS} rows; ` : ""}<a href=${href(["tables", "quality"])}>the whole table</a></p>`;
