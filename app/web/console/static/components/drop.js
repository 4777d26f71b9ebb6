// A place where files are dropped. Its button chooses them, for the keyboard and for phones.

import { html, useRef, useState } from "../ui.js";

/** `take` gets an array of Files. Without `multiple` only the first is taken. */
export function DropZone({ take, label, choose, multiple = false, children }) {
  const [over, setOver] = useState(false);
  const input = useRef(null);
  const chosen = (files) => {
    const taken = multiple ? [...files] : [...files].slice(0, 1);
    if (taken.length) take(taken);
  };
  const hasFiles = (event) => [...event.dataTransfer.types].includes("Files");
  const dragged = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setOver(true);
  };
  const dropped = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setOver(false);
    chosen(event.dataTransfer.files);
  };
  return html`<div class=${over ? "drop over" : "drop"} onDragOver=${dragged} onDragLeave=${() => setOver(false)} onDrop=${dropped}>
    ${children}
    <p class="hint">${label}, or <button type="button" onClick=${() => input.current.click()}>${choose}</button></p>
    <input type="file" hidden multiple=${multiple} ref=${input} aria-label=${choose} onChange=${(event) => { chosen(event.target.files); event.target.value = ""; }} />
  </div>`;
}
