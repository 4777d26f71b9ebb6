// Why no format explains some bytes: what /problems/not-recognised tells of each that was tried.

import { Foreign, html, number } from "../ui.js";

/** tried: [{format, at, why}], the one that came furthest first. */
export function Tried({ tried }) {
  if (!tried?.length) return null;
  const furthest = [...tried].sort((one, other) => other.at - one.at);
  return html`<details><summary>${number(tried.length)} formats were tried</summary>
    <ul>${furthest.map((one) => html`<li key=${one.format}><code>${one.format}</code>, byte ${number(one.at)}: <${Foreign} text=${one.why} /></li>`)}</ul></details>`;
}
