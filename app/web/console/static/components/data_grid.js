// A table of any size: only the visible cells exist, and rows are read in pages when they come into view.

import { ErrorBox, html, onResize, useEffect, useLayoutEffect, useMemo, useRef, useState, visible } from "../ui.js";
import { number } from "./format.js";
import { useVirtualRows } from "./virtual.js";

const ROW = 26; // pixels
const HEAD = 52;
const PAGE = 100; // rows of a request
const MOST_PAGES = 40; // that are kept
const LONGEST = 300; // characters of a cell that are shown

const widthOf = ({ name, label = "", type, length }) => {
  const text = Math.max(name.length + 2, Math.min(label?.length ?? 0, 24));
  const values = type === "text" ? Math.min(length ?? 20, 40) : { datetime: 22, number: 12 }[type] ?? 14;
  return Math.round(Math.min(Math.max(text, values, 5), 44) * 8.4) + 18;
};

function shown(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value);
  return visible(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

/**
 * columns: [{name, label, format, type, length}]; total: the number of rows;
 * load(offset, limit, sort, signal): a promise of {rows: [[value, …], …], special_missing: [{row, column, tag}]}, where
 * `sort` is "", "NAME" or "-NAME"; without `canSort` the order cannot be changed.
 * version: when it changes, the rows are read again.
 */
export function DataGrid({ columns, total, load, label, canSort = true, version = 0 }) {
  const rows = useVirtualRows(total, ROW, HEAD);
  const pages = useRef(new Map()).current;
  const running = useRef(null);
  const [sort, setSort] = useState("");
  const [error, setError] = useState(null);
  const [left, setLeft] = useState(0);
  const [width, setWidth] = useState(800);
  const [, redraw] = useState(0);
  const edges = useMemo(() => {
    const found = [0];
    for (const column of columns) found.push(found.at(-1) + widthOf(column));
    return found;
  }, [columns]);

  const fetchPages = async (signal) => {
    const first = Math.floor(Math.max(0, rows.first) / PAGE);
    const last = Math.floor(Math.max(0, rows.last) / PAGE);
    for (let page = first; page <= last; page++) {
      if (pages.get(page)?.version === version) continue;
      try {
        const found = await load(page * PAGE, PAGE, sort, signal);
        if (signal.aborted) return;
        pages.delete(page);
        const tags = new Map((found.special_missing ?? []).map(({ row, column, tag }) => [`${row} ${column}`, tag]));
        pages.set(page, { version, rows: found.rows, tags });
        if (pages.size > MOST_PAGES) pages.delete(pages.keys().next().value);
        setError(null);
        redraw((turn) => turn + 1);
      } catch (failed) {
        if (signal.aborted) return;
        setError(failed);
        return;
      }
    }
  };
  useEffect(() => {
    if (!total) return undefined;
    const aborting = new AbortController();
    running.current = aborting;
    // While the scroll bar is dragged, only the place where it rests is read.
    const timer = setTimeout(() => fetchPages(aborting.signal), 60);
    return () => {
      clearTimeout(timer);
      aborting.abort();
    };
  }, [Math.floor(rows.first / PAGE), Math.floor(rows.last / PAGE), sort, version, total === 0]);
  useLayoutEffect(() => onResize(rows.box.current, () => rows.box.current && setWidth(rows.box.current.clientWidth)), []);

  const sortBy = (name) => {
    pages.clear();
    setSort(sort === name ? `-${name}` : sort === `-${name}` ? "" : name);
  };
  const onScroll = () => {
    rows.onScroll();
    const now = rows.box.current.scrollLeft;
    if (Math.abs(now - left) > 100 || now === 0) setLeft(now);
  };

  let from = 0;
  while (from < columns.length - 1 && edges[from + 1] < left - 200) from++;
  let until = from;
  while (until < columns.length && edges[until] < left + width + 200) until++;
  const seen = columns.slice(from, until);
  const place = (index) => ({ left: `${edges[from + index]}px`, width: `${edges[from + index + 1] - edges[from + index]}px` });
  const order = (name) => (sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none");

  const body = [];
  for (let index = Math.max(0, rows.first); index <= rows.last; index++) {
    const page = pages.get(Math.floor(index / PAGE));
    const values = page?.rows[index % PAGE];
    body.push(html`<div role="row" class="grid-row" key=${index} aria-rowindex=${index + 2} style=${{ height: `${ROW}px` }}>
      <div role="rowheader" class="grid-number">${number(index + 1)}</div>
      ${seen.map((column, at) => {
        const value = values?.[from + at];
        const special = values && value == null ? page.tags.get(`${index % PAGE} ${from + at}`) : null;
        return html`<div role="gridcell" key=${from + at} aria-colindex=${from + at + 2} style=${place(at)}
            class="grid-cell ${column.type === "number" ? "numeric" : ""} ${special ? "special" : ""}">${values ? (special ?? shown(value)) : "…"}</div>`;
      })}
    </div>`);
  }
  const inner = { width: `${edges.at(-1) + 72}px` };
  return html`<${ErrorBox} error=${error} />
    <div class="grid" ref=${rows.box} onScroll=${onScroll} tabindex="0" role="grid" aria-label=${label}
        aria-rowcount=${total + 1} aria-colcount=${columns.length + 1} aria-busy=${pages.size ? "false" : "true"} style=${{ height: `${rows.height + 18}px` }}>
      <div role="rowgroup" class="grid-head" style=${{ ...inner, height: `${HEAD}px` }}>
        <div role="row" aria-rowindex="1" class="grid-row" style=${{ height: `${HEAD}px` }}>
          <div role="columnheader" class="grid-number">Row</div>
          ${seen.map((column, at) => html`<div role="columnheader" key=${from + at} aria-colindex=${from + at + 2} style=${place(at)}
              class="grid-cell ${column.type === "number" ? "numeric" : ""}" aria-sort=${order(column.name)}>
            ${canSort
              ? html`<button type="button" class="grid-sort" title="Sort by ${visible(column.name)}" onClick=${() => sortBy(column.name)}>
                  <bdi>${visible(column.name)}</bdi>${{ ascending: " ▲", descending: " ▼", none: "" }[order(column.name)]}</button>`
              : html`<strong><bdi>${visible(column.name)}</bdi></strong>`}
            <span class="grid-label" title=${visible(column.label || "")}>${visible(column.label || "")}${column.format ? html` <code>${visible(column.format)}</code>` : ""}</span>
          </div>`)}
        </div>
      </div>
      <div role="rowgroup" class="virtual-height" style=${{ ...inner, height: `${rows.height - HEAD}px` }}>
        <div role="presentation" class="virtual-window" style=${{ ...inner, transform: `translateY(${rows.top}px)` }}>${body}</div>
      </div>
    </div>
    <p class="hint" role="status">${number(total)} rows, ${number(columns.length)} columns${sort && `, sorted by ${visible(sort.replace(/^-/, ""))}${sort[0] === "-" ? ", descending" : ""}`}</p>`;
}
