// Pipeline: what the batches on Spark have committed to the tables, and what they counted by source and hour.

import { Copy, Empty, ErrorBox, Foreign, Loading, Table, Time, href, html, number, size, time, useEffect, useLoad, useRef, useState } from "../ui.js";
import * as rest from "../rest.js";

const EVERY = 5000; // milliseconds
const HOURS = 200;
const KEPT = 100;

export default function Pipeline() {
  const [commits, setCommits] = useState([]);
  const known = useRef(null);
  const { value, error, loading, reload } = useLoad(overview, []);
  useEffect(() => {
    const timer = setInterval(reload, EVERY);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (!value) return;
    const now = new Map(value.tables.map((table) => [table.name, table]));
    const found = known.current ? commitsBetween(known.current, now) : [];
    known.current = now;
    if (found.length) setCommits((old) => [...found, ...old].slice(0, KEPT));
  }, [value]);
  return html`<h1>Pipeline</h1>
    <p>Where Spark assembles, each batch commits a version of the tables that it adds to. The state is read every ${EVERY / 1000} seconds.</p>
    <${ErrorBox} error=${error} retry=${reload} />
    ${!value && loading && html`<${Loading} />`}
    ${value && !value.tables.length && html`<${Empty}>The pipeline has not built any table yet. With <code>assembler = "embedded"</code> the gateway assembles by itself, and there are no batches.</${Empty}>`}
    ${value?.tables.length > 0 && html`
      <h2>Newest commits</h2><${Tables} tables=${value.tables} journal=${value.journal} />
      <h2>Batches seen since this page was opened</h2><${Commits} commits=${commits} />
      ${value.quality && html`<h2>By source and hour</h2><${Quality} rows=${value.quality} />`}`}`;
}

/** Read all tables, each one's place in the journal, and the newest hours of the table `quality`. */
async function overview(signal) {
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
  const [reached, hours] = await Promise.all([
    newest && rest.get(`v1/tables/${encodeURIComponent(newest.name)}`, {}, signal).then((one) => one.reached),
    quality && rest.get("v1/tables/quality/rows", { format: "json", offset: Math.max(0, quality.rows - HOURS), limit: HOURS }, signal),
  ]);
  return { tables, journal: reached ?? null, quality: hours?.sort((one, other) => other.hour.localeCompare(one.hour)) };
}

/** Return the commits between two readings: rows that were added, and how many a second. */
function commitsBetween(before, now) {
  const found = [];
  for (const [name, table] of now) {
    const old = before.get(name);
    if (old?.version === table.version) continue;
    const rows = table.rows - (old?.rows ?? 0);
    const seconds = old ? (new Date(table.modified_at) - new Date(old.modified_at)) / 1000 : null;
    found.push({ name, version: table.version, commits: old ? table.version - old.version : 1, rows, at: table.modified_at, rate: seconds > 0 ? rows / seconds : null });
  }
  return found;
}

const Tables = ({ tables, journal }) => html`
  ${journal && html`<p>The newest data set was at segment ${journal.segment}, batch ${journal.batch}, row ${journal.row} of the journal.</p>`}
  <${Table} label="Newest commits" head=${["Table", ["Version"], "Committed", ["Rows"], ["Files"], ["Size"]]}>
    ${tables.map((one) => html`<tr key=${one.name}><td><a href=${href(["tables", one.name])}><${Foreign} text=${one.name} /></a></td><td class="n">${one.version}</td>
      <td><${Time} at=${one.modified_at} /></td><td class="n">${number(one.rows)}</td><td class="n">${number(one.files)}</td><td class="n">${size(one.size)}</td></tr>`)}
  </${Table}>
  <p><${Copy} text=${() => rest.curl("GET", "v1/tables")} /></p>`;

const Commits = ({ commits }) => commits.length
  ? html`<div role="log"><${Table} label="Batches" head=${["Committed", "Table", ["Version"], ["Commits"], ["Rows added"], ["Rows per second since the one before"]]}>
      ${commits.map((one) => html`<tr key=${`${one.name} ${one.version}`}><td><${Time} at=${one.at} /></td><td><${Foreign} text=${one.name} /></td><td class="n">${one.version}</td>
        <td class="n">${one.commits}</td><td class="n">${number(one.rows)}</td><td class="n">${number(one.rate)}</td></tr>`)}</${Table}></div>`
  : html`<${Empty}>None yet.</${Empty}>`;

const Quality = ({ rows }) => html`<${Table} label="By source and hour" head=${["Hour", "Source", ["Messages"], ["Per second"], ["Duplicates"], ["Conflicts"], ["Begun"], ["Completed"], ["Quarantined"], ["Missing ranges"], ["Longest, s"]]}>
    ${rows.map((one) => html`<tr key=${`${one.source} ${one.hour}`}><td><time datetime=${one.hour}>${time(one.hour).slice(0, 16)}</time></td><td><${Foreign} text=${one.source} /></td>
      ${[one.messages, one.messages / 3600, one.duplicates, one.conflicts, one.attachments_begun, one.attachments_completed, one.attachments_quarantined, one.missing_ranges, one.longest_seconds]
        .map((value) => html`<td class="n">${number(value)}</td>`)}</tr>`)}
  </${Table}>
  <p>${rows.length >= HOURS ? `The last ${HOURS} rows; ` : ""}<a href=${href(["tables", "quality"])}>the whole table</a></p>`;
