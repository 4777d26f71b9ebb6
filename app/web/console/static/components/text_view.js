// Text of any size, read in pieces while it is scrolled. Never more than MOST is held.

import { ErrorBox, html, useEffect, useRef, useState, visible } from "../ui.js";
import { number, size as shownSize } from "./format.js";
import { VirtualList } from "./virtual.js";

const PIECE = 256 << 10;
const MOST = 16 << 20;
const ROW = 20; // pixels
const LONGEST = 2000; // characters of a row; longer lines go on in the next one

/** Return a decoder of a character set, or null if browsers have none for it. */
export function decoderOf(charset) {
  try {
    return new TextDecoder(charset || "utf-8");
  } catch {
    return null;
  }
}

/** Cut text into rows: whole lines, and pieces of long ones. The rest without a line end is returned too. */
export function rowsOf(text, isLast) {
  const lines = text.split(/\r\n|\n|\r(?!$)/);
  const rest = isLast ? "" : lines.pop();
  if (isLast && lines.at(-1) === "") lines.pop();
  const rows = [];
  for (const line of lines) {
    if (line.length <= LONGEST) rows.push(line);
    else for (let at = 0; at < line.length; at += LONGEST) rows.push(line.slice(at, at + LONGEST));
  }
  let left = rest;
  for (; left.length > LONGEST; left = left.slice(LONGEST)) rows.push(left.slice(0, LONGEST));
  return [rows, left];
}

/**
 * size: how many bytes there are, null while more are to come; load(first, last, signal): a promise of the bytes first to
 * last, or fewer; charset: its name; version: changes when more bytes may be there.
 */
export function TextView({ size, load, charset, label, version }) {
  const [start, setStart] = useState(0); // the byte at which the shown text begins
  const [state, setState] = useState({ rows: [], read: 0 });
  const [error, setError] = useState(null);
  const work = useRef(null);
  const control = useRef(null);
  const isToEnd = useRef(false); // the last line is to be shown as soon as it has been read

  useEffect(() => {
    const aborting = new AbortController();
    work.current = { rows: [], read: start, rest: "", decoder: decoderOf(charset), busy: false, cut: start > 0, aborting };
    setState({ rows: [], read: start });
    more();
    return () => aborting.abort();
  }, [start, charset]);
  useEffect(() => {
    work.current.isDry = false;
    more();
  }, [size, version]);

  async function more() {
    const mine = work.current;
    if (!mine || mine.busy || mine.isDry || mine.read >= (size ?? Infinity) || mine.read - start >= MOST) return;
    mine.busy = true;
    try {
      const last = Math.min(mine.read + PIECE, size ?? Infinity) - 1;
      // With the byte before: a range that has no byte is an error.
      const known = size === null && mine.read > 0 ? 1 : 0;
      const bytes = (await load(mine.read - known, last, mine.aborting.signal)).subarray(known);
      if (mine.aborting.signal.aborted) return;
      mine.isDry = mine.read + bytes.length <= last;
      mine.read += bytes.length;
      let text = mine.rest + mine.decoder.decode(bytes, { stream: true });
      if (mine.cut) {
        const end = text.search(/[\n\r]/); // The first line began before `start`.
        text = text.slice(end + 1);
        mine.cut = false;
      }
      const [rows, rest] = rowsOf(text, size !== null && mine.read >= size);
      mine.rest = rest;
      for (const row of rows) mine.rows.push(row);
      setState({ rows: mine.rows, read: mine.read });
      setError(null);
    } catch (failed) {
      if (failed.name !== "AbortError") setError(failed);
    } finally {
      mine.busy = false;
    }
  }

  const { rows, read } = state;
  useEffect(() => {
    if (!isToEnd.current || rows !== work.current.rows || read < size) return;
    isToEnd.current = false;
    control.current.scrollTo(rows.length);
  }, [read, start]);
  const isFull = read - start >= MOST && read !== size;
  const go = (at, toEnd = false) => {
    const first = charset?.startsWith("utf-16") ? at - (at % 2) : at;
    isToEnd.current = toEnd && first !== start;
    if (toEnd && first === start) control.current.scrollTo(rows.length);
    setStart(first);
  };
  const onRange = (_, last) => last >= rows.length - 200 && more();
  return html`<${ErrorBox} error=${error} retry=${more} />
    ${size !== null && size > PIECE && html`<div class="bar">
      <label>Begin at byte <input type="range" min="0" max=${size - 1} value=${start} onChange=${(event) => go(Number(event.target.value))} /></label>
      <button type="button" onClick=${() => go(0)}>Beginning</button>
      <button type="button" onClick=${() => go(Math.max(0, size - PIECE), true)}>End</button>
      ${isFull && html`<button type="button" onClick=${() => go(read)}>Continue from here</button>`}
    </div>`}
    <${VirtualList} key=${start} control=${control} className="text-rows mono" label=${label} rowHeight=${ROW} count=${rows.length} onRange=${onRange}
      row=${(index) => html`<bdi>${visible(rows[index])}</bdi>`} />
    <p class="hint" role="status">${number(rows.length)} lines, bytes ${number(start)} to ${number(read)}${
      size === null ? "" : ` of ${number(size)} (${shownSize(size)})`}${
      isFull ? "; no more is shown at once" : read < size ? "; more loads as you scroll" : ""}</p>`;
}
