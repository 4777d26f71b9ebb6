// Tables of the pipeline, their columns and rows, and SQL over them.

import { DataGrid } from "../components/data_grid.js";
import { Copy, Download, Empty, ErrorBox, Facts, Foreign, Loading, More, Pending, Table, Time, href, html, number, numbers, size, useLoad, usePages, useRef, useState } from "../ui.js";
import * as rest from "../rest.js";

const FORMATS = { csv: "CSV", parquet: "Parquet", arrow: "Arrow", ndjson: "NDJSON", "dataset-json": "Dataset-JSON", xpt: "SAS transport file" };
const MEDIA_TYPES = { csv: "text/csv", arrow: "application/vnd.apache.arrow.stream", json: "application/json" };
const LIMITS = [100, 1000, 10000];

export default function Tables({ steps }) {
  return steps.length ? html`<${One} key=${steps[0]} name=${steps[0]} />` : html`<${All} />`;
}

function All() {
  const pages = usePages("v1/tables", {}, 100);
  return html`<h1>Tables and SQL</h1>
    <p>All data sets of one library and member are one table, which the pipeline on Spark builds.</p>
    <${ErrorBox} error=${pages.error} retry=${pages.reload} />
    ${pages.items.length > 0 && html`<${Table} label="Tables" head=${["Name", ["Rows"], ["Columns"], ["Files"], ["Size"], ["Version"], "Modified"]}>
      ${pages.items.map((one) => html`<tr key=${one.name}><td><a href=${href(["tables", one.name])}><${Foreign} text=${one.name} /></a></td>
        ${numbers(one.row_count, one.column_count, one.files)}
        <td class="n">${size(one.size)}</td><td class="n">${one.version}</td><td><${Time} at=${one.modified_at} /></td></tr>`)}
    </${Table}>`}
    ${!pages.items.length && !pages.error && (pages.loading ? html`<${Loading} />` : html`<${Empty}>The pipeline has not built any table yet.</${Empty}>`)}
    <${More} pages=${pages} what="tables" />
    <h2>SQL</h2>
    <${Sql} first=${pages.items[0]?.name} />`;
}

/** "WORK.STATIONS" is work.stations in SQL. */
const inSql = (name) => name.split(".").map((step) => (/^[a-z_]\w*$/i.test(step) ? step.toLowerCase() : `"${step.replaceAll('"', '""')}"`)).join(".");

function Sql({ first, given = "" }) {
  const [sql, setSql] = useState(given);
  const [limit, setLimit] = useState(LIMITS[1]);
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const [running, setRunning] = useState(null);
  const count = useRef(0);
  const body = () => ({ sql, limit });
  const ask = async (accept) => {
    const aborting = new AbortController();
    setRunning(aborting);
    setError(null);
    try {
      return await rest.request("POST", "v1/tables/query", { json: body(), headers: { Accept: accept }, signal: aborting.signal });
    } catch (failed) {
      if (failed.name !== "AbortError") setError(failed);
      return null;
    } finally {
      setRunning(null);
    }
  };
  const run = async (event) => {
    event?.preventDefault();
    const begun = performance.now();
    const response = await ask(MEDIA_TYPES.json);
    if (response) setAnswer({ ...(await response.json()), number: ++count.current, milliseconds: performance.now() - begun });
  };
  const save = async (format) => {
    const response = await ask(MEDIA_TYPES[format]);
    if (response) rest.saveFile(await response.blob(), `query.${format === "arrow" ? "arrows" : format}`);
  };
  const keys = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event); };
  const isReady = sql.trim() && !running;
  return html`<form onSubmit=${run}>
    <label for="sql">One query, which can only read; Ctrl+Enter runs it</label>
    <textarea id="sql" rows="4" spellcheck="false" value=${sql} onInput=${(event) => setSql(event.target.value)} onKeyDown=${keys} placeholder=${first ? `SELECT * FROM ${inSql(first)}` : ""}></textarea>
    <div class="bar">
      <label>At most rows<select value=${limit} onChange=${(event) => setLimit(Number(event.target.value))}>${LIMITS.map((one) => html`<option key=${one} value=${one}>${number(one)}</option>`)}</select></label>
      <button class="primary" disabled=${!isReady}>${running ? "Running …" : "Run"}</button>
      ${running && html`<button type="button" onClick=${() => running.abort()}>Stop</button>`}
      <button type="button" disabled=${!isReady} onClick=${() => save("csv")}>Download CSV</button>
      <button type="button" disabled=${!isReady} onClick=${() => save("arrow")}>Download Arrow</button>
      <${Copy} text=${() => rest.curl("POST", "v1/tables/query", { json: body(), headers: { Accept: "text/csv" } })} />
    </div>
  </form>
  <${ErrorBox} error=${error} />
  ${answer && html`<${Answer} key=${answer.number} answer=${answer} />`}`;
}

function Answer({ answer }) {
  const { columns, rows, truncated, milliseconds } = answer;
  const load = (offset, limit) => Promise.resolve({ rows: rows.slice(offset, offset + limit) });
  return html`<p role="status">${number(rows.length)} rows in ${number(milliseconds)} ms.
      ${truncated && html` <strong>There are more: only the first ${number(rows.length)} are shown.</strong>`}</p>
    ${columns.length > 0 && html`<${DataGrid} columns=${columns.map(({ name, type }) => gridColumn({ name, label: type }, type))} total=${rows.length} load=${load} label="Result" canSort=${false} />`}`;
}

/** A column as the grid has it, with the word that …/rows has for its Arrow type. */
const gridColumn = (column, type) => ({ ...column, type: /^(u?int|halffloat|float|double|decimal)/.test(type) ? "number" : /string/.test(type) ? "text" : "" });

function One({ name }) {
  const path = rest.resource("tables", name);
  const { value, error, reload } = useLoad((signal) => rest.get(path, {}, signal), [path]);
  const [format, setFormat] = useState("csv");
  if (!value) return html`<h1><${Foreign} text=${name} /></h1><${Pending} error=${error} retry=${reload} />`;
  const load = async (offset, limit, sort, signal) => {
    const rows = await rest.get(`${path}/rows`, { format: "json", offset, limit }, signal);
    return { rows: rows.map((row) => value.columns.map((column) => row[column.name] ?? row[column.column])) };
  };
  return html`<h1><${Foreign} text=${value.name} /></h1>
    ${value.label && html`<p><${Foreign} text=${value.label} /></p>`}
    <${Facts} rows=${[
      ["Rows", number(value.row_count)], ["Files", number(value.files)], ["Size", size(value.size)], ["Version", value.version],
      ["Modified", html`<${Time} at=${value.modified_at} />`],
      ["Reached in the journal", value.reached && `segment ${value.reached.segment}, batch ${value.reached.batch}, row ${value.reached.row}`],
      ...Object.entries(value.attributes).map(([key, text]) => [html`<${Foreign} text=${key} />`, html`<${Foreign} text=${text} />`]),
    ]} />
    <div class="bar"><label>Format<select value=${format} onChange=${(event) => setFormat(event.target.value)}>
        ${Object.entries(FORMATS).map(([word, title]) => html`<option key=${word} value=${word}>${title}</option>`)}</select></label>
      <${Download} label="Download all rows" path=${`${path}/rows`} query=${{ format }} name=${`${value.member || value.name}.${format}`} /></div>
    <h2>Rows</h2>
    <${DataGrid} columns=${value.columns.map((one) => gridColumn(one, one.arrow_type))} total=${value.row_count} load=${load} label=${`Rows of ${value.name}`} canSort=${false} version=${value.version} />
    <h2>Columns</h2>
    <${Table} label="Columns" head=${[["#"], "Name", "Type", ["Length"], "Format", "Informat", "Label", "Arrow type", "Notes"]}>
      ${value.columns.map((one) => html`<tr key=${one.number}><td class="n">${one.number}</td><td><${Foreign} text=${one.name} /></td><td>${one.type}</td>
        <td class="n">${one.length}</td><td>${one.format}</td><td>${one.informat}</td><td><${Foreign} text=${one.label} empty="" /></td><td><code>${one.arrow_type}</code></td>
        <td>${one.notes.map((note) => html`<p>${note}</p>`)}</td></tr>`)}
    </${Table}>
    <h2>SQL</h2>
    <${Sql} first=${value.name} given=${`SELECT * FROM ${inSql(value.name)}`} />
    <p><a href=${href(["tables"])}>All tables</a></p>`;
}
