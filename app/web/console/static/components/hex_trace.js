// Bytes in hexadecimal beside the fields that trace finds in them. Pointing at one lights up the other.

import { html, indexAt, useEffect, useMemo, useRef, useState, visible } from "../ui.js";
import { number } from "./format.js";
import { VirtualList } from "./virtual.js";

const WIDTH = 16; // bytes in a row
const ROW = 22; // pixels
const LONGEST_VALUE = 200;

const hex = (byte) => byte.toString(16).padStart(2, "0");
const letter = (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·");

/** The rows of the list of fields: a heading for each structure, then its cells. */
function fieldsOf(frames) {
  return frames.flatMap((frame) => [{ frame }, ...frame.cells.map((cell) => ({ cell }))]);
}

/** Return the index of the last field that begins at or before a byte and contains it, or -1. */
function fieldAt(starts, at) {
  const found = starts[indexAt(starts, "offset", at)];
  return found && found.offset <= at && at < found.offset + found.size ? found.index : -1;
}

function shownValue(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return visible(text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text);
}

/**
 * bytes: a Uint8Array; frames: the answer of POST /v1/trace, or null where nothing is known of the bytes; mark: the
 * number of a byte that is marked, or null.
 */
export function HexTrace({ bytes, frames, label = "Bytes", mark = null }) {
  const [lit, setLit] = useState(null); // {offset, size, index} of the field that is lit up
  const [pinned, setPinned] = useState(false);
  const hexControl = useRef(null);
  const fieldControl = useRef(null);
  const fields = useMemo(() => fieldsOf(frames ?? []), [frames]);
  const starts = useMemo(
    () => fields.map(({ cell }, index) => cell && { offset: cell.offset, size: cell.size, index }).filter((each) => each?.size),
    [fields],
  );

  useEffect(() => {
    if (mark !== null && mark < bytes.length) hexControl.current.scrollTo(Math.floor(mark / WIDTH), true);
  }, [bytes, mark]);

  const light = (index) => {
    const cell = fields[index]?.cell;
    setLit(cell ? { offset: cell.offset, size: cell.size, index } : null);
    return cell;
  };
  const toField = (index) => {
    const cell = light(index);
    if (cell) hexControl.current.scrollTo(Math.floor(cell.offset / WIDTH), true);
  };
  const toByte = (at) => {
    const index = fieldAt(starts, at);
    if (light(index)) fieldControl.current.scrollTo(index, true);
  };
  const overBytes = (event) => {
    const at = event.target.dataset?.at;
    if (at !== undefined && !pinned) toByte(Number(at));
  };
  const press = (event) => {
    const at = event.target.dataset?.at;
    if (at === undefined) return;
    toByte(Number(at));
    setPinned(!pinned);
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    let index = (lit?.index ?? -1) + step;
    while (fields[index]?.frame) index += step;
    if (!fields[index]) return;
    event.preventDefault();
    toField(index);
    fieldControl.current.scrollTo(index, true);
  };

  const line = (row) => {
    const first = row * WIDTH;
    const cells = [...bytes.subarray(first, first + WIDTH)];
    const look = (index) => {
      const at = first + index;
      if (at === mark) return "marked";
      return lit && at >= lit.offset && at < lit.offset + lit.size ? "lit" : undefined;
    };
    return html`<span class="hex-offset">${first.toString(16).padStart(8, "0")}</span>
      <span class="hex-bytes">${cells.map((byte, index) => html`<span data-at=${first + index} class=${look(index)}>${hex(byte)}</span>`)}</span>
      <span class="hex-letters">${cells.map((byte, index) => html`<span data-at=${first + index} class=${look(index)}>${letter(byte)}</span>`)}</span>`;
  };
  const field = (index) => {
    const { frame, cell } = fields[index];
    if (frame) return html`<strong>${frame.format}</strong> ${visible(frame.note)}`;
    const name = cell.name.replace(/^[A-Z]\w*\./, ""); // The heading tells the structure, e.g. "Count.", already.
    return html`<span class="hex-at">${number(cell.offset)}</span><span class="hex-size">${number(cell.size)}</span>
      <span class="hex-name" title=${cell.name}>${name}</span><bdi>${shownValue(cell.value)}</bdi>`;
  };
  const fieldProps = (index) => ({
    class: `virtual-row${fields[index].cell && lit?.index === index ? " lit" : ""}`,
    onPointerEnter: () => pinned || toField(index),
    onClick: () => { toField(index); setPinned(!pinned); },
  });

  return html`<div class="hex-trace" onPointerLeave=${() => pinned || setLit(null)}>
    <div class="hex-side" onPointerOver=${overBytes} onClick=${press}>
      <${VirtualList} className="hex mono" label="${label} in hexadecimal, ${number(bytes.length)} of them" rowHeight=${ROW}
        count=${Math.ceil(bytes.length / WIDTH)} row=${line} control=${hexControl} />
    </div>
    ${frames && html`<div class="hex-side" onKeyDown=${onKeyDown}>
      <${VirtualList} className="hex-fields mono" label="Fields: offset, size, name, value" rowHeight=${ROW}
        count=${fields.length} row=${field} rowProps=${fieldProps} control=${fieldControl} />
      <p class="visually-hidden" role="status">${lit && `${fields[lit.index].cell.name}: ${shownValue(fields[lit.index].cell.value)}`}</p>
    </div>`}
  </div>`;
}
