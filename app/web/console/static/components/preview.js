// What an attachment contains, as far as it has arrived: a picture, text, rows, or bytes.

import { Empty, ErrorBox, Loading, Pending, html, useCallback, useEffect, useLoad, useState } from "../ui.js";
import * as rest from "../rest.js";
import { DataGrid } from "./data_grid.js";
import { number, range, size as shownSize } from "./format.js";
import { HexTrace } from "./hex_trace.js";
import { Profile } from "./profile.js";
import { TextView, decoderOf } from "./text_view.js";

const LARGEST_PICTURE = 32 << 20;
const SNIFFED = 4096;
const BYTES_SHOWN = 64 << 10;
const CONVERTED = 1 << 20;

const PICTURES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/bmp", [0x42, 0x4d]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46, -1, -1, -1, -1, 0x57, 0x45, 0x42, 0x50]],
];

/** Return the media type of a picture that begins with these bytes, or null. The type that a sender gave is not trusted. */
export function pictureType(bytes) {
  const found = PICTURES.find(([, magic]) => magic.every((byte, at) => byte === -1 || bytes[at] === byte));
  return found?.[0] ?? null;
}

/** Tell whether bytes are text in UTF-8; a character that is cut off at the end does not matter. */
function isText(bytes) {
  if (bytes.some((byte) => byte < 32 && byte !== 9 && byte !== 10 && byte !== 13 && byte !== 12)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** Return {bytes, size, missing} of a range of content; `size` is null and `missing` names parts while more is to come. */
async function readRange(id, isPartial, first, last, signal) {
  const response = await rest.request("GET", rest.resource("attachments", id, "content"), {
    query: isPartial ? { partial: true } : {}, headers: { Range: `bytes=${first}-${last}` }, signal,
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const whole = /\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "");
  const size = isPartial && !whole ? null : whole ? Number(whole[1]) : first + bytes.length;
  return { bytes, size, missing: response.headers.get("Missing-Parts") };
}

const charsetOf = (attachment) => /charset="?([^";]+)/.exec(attachment.content_type ?? "")?.[1];

/** The beginning of a text in a character set that only the gateway knows. */
async function readConverted(id, signal) {
  const response = await rest.request("GET", rest.resource("attachments", id, "content"), { query: { charset: "utf-8" }, signal });
  const reader = response.body.getReader();
  const pieces = [];
  let length = 0;
  while (length < CONVERTED) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    length += value.length;
  }
  reader.cancel();
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

function Picture({ id, size, type, name }) {
  const { value, error } = useLoad(async (signal) => {
    const response = await rest.request("GET", rest.resource("attachments", id, "content"), { signal });
    return URL.createObjectURL(new Blob([await response.arrayBuffer()], { type }));
  }, [id, size]);
  const [isBroken, setBroken] = useState(false);
  useEffect(() => () => value && URL.revokeObjectURL(value), [value]);
  if (isBroken) return html`<${Empty}>These bytes begin as a picture (${type}), but the browser cannot show them.</${Empty}>`;
  return html`<${ErrorBox} error=${error} /><${Loading} when=${!value && !error} />
    ${value && html`<img class="picture" src=${value} alt=${`The picture ${name}`} onError=${() => setBroken(true)} />`}`;
}

function FilePreview({ attachment, version }) {
  const { id } = attachment;
  const isPartial = attachment.state !== "finished";
  const head = useLoad(async (signal) => {
    if (attachment.size === 0) return { bytes: new Uint8Array(), size: 0 };
    return readRange(id, isPartial, 0, SNIFFED - 1, signal);
  }, [id, isPartial, version]);
  const load = useCallback(async (first, last, signal) => (await readRange(id, isPartial, first, last, signal)).bytes, [id, isPartial]);
  const isOwnCharset = attachment.kind === "text-file" && !decoderOf(charsetOf(attachment));
  const converted = useLoad(async (signal) => (isOwnCharset && !isPartial ? readConverted(id, signal) : null), [id, isOwnCharset, isPartial]);
  if (head.error) {
    if (isPartial && [404, 409, 410, 416].includes(head.error.status)) return html`<${Empty}>Nothing can be shown yet: ${head.error.message}.</${Empty}>`;
    return html`<${ErrorBox} error=${head.error} retry=${head.reload} />`;
  }
  if (!head.value || (isOwnCharset && converted.loading)) return html`<${Loading} />`;
  const { bytes, size, missing } = head.value;
  if (!bytes.length) return html`<${Empty}>It has no bytes.</${Empty}>`;
  const note = isPartial && html`<p class="hint" role="status">This is the content before the first gap${missing && `; missing parts: ${missing.replaceAll(/(\d+)-\1\b/g, "$1")}`}.</p>`;
  const type = pictureType(bytes);
  if (type && !isPartial) {
    if (size <= LARGEST_PICTURE) return html`<${Picture} id=${id} size=${size} type=${type} name=${attachment.file_name} />`;
    return html`<${Empty}>A picture of ${shownSize(size)}: too large to be shown here. Download it.</${Empty}>`;
  }
  if (converted.value) {
    const some = converted.value;
    return html`<p class="hint">The character set ${charsetOf(attachment)} is converted by the gateway; at most the first ${shownSize(CONVERTED)} are shown.</p>
      <${TextView} size=${some.length} load=${async (first, last) => some.subarray(first, last + 1)} label="Text" />`;
  }
  if ((attachment.kind === "text-file" && !isOwnCharset) || isText(bytes))
    return html`${note}<${TextView} size=${size} version=${version} load=${load} charset=${charsetOf(attachment)} label="Text" />`;
  return html`${note}<${Bytes} size=${size} load=${load} version=${isPartial ? version : ""} />`;
}

function Bytes({ size, load, version }) {
  const shown = Math.min(size ?? BYTES_SHOWN, BYTES_SHOWN);
  const { value, error } = useLoad((signal) => load(0, shown - 1, signal), [load, version]);
  if (!value) return html`<${Pending} error=${error} />`;
  return html`<${HexTrace} bytes=${value} frames=${null} label="Bytes" />
    <p class="hint">${size === null ? `${number(value.length)} bytes.` : shown < size ? `The first ${shownSize(shown)} of ${shownSize(size)}.` : `All ${number(size)} bytes.`}</p>`;
}

function DataSetPreview({ attachment, version }) {
  const { id } = attachment;
  const isPartial = attachment.state !== "finished";
  const [isProfiled, setProfiled] = useState(false);
  const path = rest.resource("attachments", id, "rows");
  const query = isPartial ? { partial: true } : {};
  const [available, setAvailable] = useState(null); // rows of a partial data set, as far as they are known
  const head = useLoad((signal) => rest.get(path, { ...query, offset: 0, limit: 1 }, signal), [id, isPartial, version]);
  const load = async (offset, limit, sort, signal) => {
    const page = await rest.get(path, { ...query, offset, limit, sort }, signal);
    const end = offset + page.rows.length;
    if (isPartial) setAvailable((old) => (page.has_more && page.rows.length ? Math.max(old, end + limit) : page.rows.length ? end : Math.min(old, end)));
    return page;
  };
  if (head.error) {
    if (isPartial && [404, 409, 410].includes(head.error.status)) return html`<${Empty}>No row can be shown yet: ${head.error.message}.</${Empty}>`;
    return html`<${ErrorBox} error=${head.error} retry=${head.reload} />`;
  }
  if (!head.value) return html`<${Loading} />`;
  const { columns, rows, has_more: hasMore } = head.value;
  const total = head.value.total ?? available ?? rows.length + (hasMore ? 100 : 0);
  return html`
    ${isPartial && html`<p class="hint" role="status">These rows can be read already${head.value.missing_parts?.length ? `; missing parts: ${head.value.missing_parts.map(([first, last]) => range(first, last)).join(", ")}` : ""}.</p>`}
    <${DataGrid} columns=${columns} total=${total} load=${load} version=${isPartial ? version : 0} label="Rows" />
    ${!isPartial && html`<h3>Columns</h3>
      ${isProfiled ? html`<${Profile} id=${id} />` : html`<button type="button" onClick=${() => setProfiled(true)}>Profile the columns</button>`}`}`;
}

/** attachment: as REST gives it; version: changes when more of it has arrived. */
export function Preview({ attachment, version }) {
  if (!["receiving", "complete", "finished"].includes(attachment.state)) return html`<${Empty}>It has no content: it is ${attachment.state}.</${Empty}>`;
  if (!attachment.kind) return html`<${Empty}>Its kind is known when its header arrives.</${Empty}>`;
  if (attachment.kind === "data-set") return html`<${DataSetPreview} attachment=${attachment} version=${version} />`;
  return html`<${FilePreview} attachment=${attachment} version=${version} />`;
}
