// Trace: bytes that somebody captured, explained field by field.

import { HexTrace } from "../components/hex_trace.js";
import { Copy, ErrorBox, html, size, useEffect, useRef, useState } from "../ui.js";
import { DropZone } from "../components/drop.js";
import { Tried } from "../components/tried.js";
import * as rest from "../rest.js";

/** The formats that `as` takes; a test compares them with the gateway's. */
const FORMATS = [
  "mqmd", "mqmde", "tibrvmsg", "rendezvous-agreement", "order-packet", "sas-data-set-definition", "sas-variables",
  "sas-indexes", "sas-attachment-header", "mqtt", "sas-file-records", "sas-file-description", "sas-count",
  "sas-observations", "sas-constraints",
];
const LARGEST = 4 << 20;

const refused = (why) => Object.assign(new Error(why), { title: "These bytes cannot be decoded" });

/** Return the bytes of a text in hexadecimal or base64. Throws Error with the place of the first wrong character. */
export function bytesOf(text) {
  const digits = text.replace(/0x/gi, "").replace(/[\s:,-]/g, "");
  if (/^[0-9a-f]*$/i.test(digits)) {
    if (digits.length % 2) throw refused(`${digits.length} hexadecimal digits are not a whole number of bytes; a byte has two digits.`);
    return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  const letters = text.replace(/\s/g, "").replaceAll("-", "+").replaceAll("_", "/");
  const wrong = /[^A-Za-z0-9+/=]/.exec(letters);
  if (wrong) throw refused(`Neither hexadecimal nor base64: “${wrong[0]}” is the character ${wrong.index + 1}, spaces not counted.`);
  try {
    return Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  } catch {
    throw refused("Neither hexadecimal nor base64: the end of the base64 is missing.");
  }
}

export default function Trace() {
  const [text, setText] = useState("");
  const [format, setFormat] = useState("");
  const [file, setFile] = useState(null);
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const result = useRef(null);
  useEffect(() => { if (answer) result.current?.focus(); }, [answer]);

  const explain = async (bytes, as) => {
    setBusy(true);
    setError(null);
    try {
      if (bytes.length > LARGEST) throw refused(`A capture may have ${size(LARGEST)}; this one has ${size(bytes.length)}.`);
      const headers = { "Content-Type": "application/octet-stream" };
      const frames = await (await rest.request("POST", "v1/trace", { query: { as }, body: bytes, headers })).json();
      setAnswer({ bytes, frames });
    } catch (failed) {
      setAnswer({ bytes, frames: null });
      setError(failed);
    }
    setBusy(false);
  };
  const submit = (event) => {
    event?.preventDefault();
    try {
      explain(file ? file.bytes : bytesOf(text), format);
    } catch (failed) {
      setAnswer(null);
      setError(failed);
    }
  };
  const take = async ([given]) => {
    const bytes = new Uint8Array(await given.arrayBuffer());
    setFile({ name: given.name, bytes });
    explain(bytes, format);
  };
  const line = () => rest.curl("POST", "v1/trace", { query: { as: format }, file: file?.name ?? "capture.bin" });
  return html`<h1>Trace</h1>
    <p>Paste the bytes of a message, or drop a file with them. Each field is shown with its place and its meaning.</p>
    <form onSubmit=${submit}>
      <${DropZone} take=${take} label="Drop a file with the bytes here" choose="Choose a file">
        <label for="capture">Bytes, in hexadecimal or base64</label>
        <textarea id="capture" rows="6" spellcheck="false" value=${text} onInput=${(event) => { setText(event.target.value); setFile(null); }}></textarea>
      </${DropZone}>
      <div class="bar">
        <label>Format<select value=${format} onChange=${(event) => setFormat(event.target.value)}>
          <option value="">detect</option>${FORMATS.map((name) => html`<option key=${name}>${name}</option>`)}</select></label>
        <button class="primary" disabled=${busy || !(text.trim() || file)}>${busy ? "Explaining …" : "Explain"}</button>
        <${Copy} text=${line} />
      </div>
    </form>
    <${ErrorBox} error=${error?.members?.tried ? { ...error, message: "No format explains all of these bytes." } : error} />
    <${Tried} tried=${error?.members?.tried} />
    ${answer && html`<section aria-label="Explained bytes" tabindex="-1" ref=${result}>
      <h2>${file ? html`<bdi>${file.name}</bdi>, ` : ""}${size(answer.bytes.length)}</h2>
      <${HexTrace} bytes=${answer.bytes} frames=${answer.frames} />
      ${answer.frames?.filter((frame) => frame.trace).map((frame) => html`<h3>${frame.format} as a kernel's vtrace</h3>
        <pre class="scroll" tabindex="0">${frame.trace.join("\n")}</pre>`)}
    </section>`}`;
}
