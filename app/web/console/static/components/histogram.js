// Small pictures of the values of a column, from its profile.

import { Foreign, html } from "../ui.js";
import { number as count } from "./format.js";

const [WIDTH, HEIGHT] = [160, 36];

/** counts: how many values are in each of equally wide bins from `from` to `to`. */
export function Histogram({ counts, from, to, label }) {
  const most = Math.max(...counts, 1);
  const wide = WIDTH / counts.length;
  const text = `${label}: ${count(counts.reduce((sum, each) => sum + each, 0))} values from ${from} to ${to}`;
  return html`<svg class="histogram" viewBox="0 0 ${WIDTH} ${HEIGHT}" width=${WIDTH} height=${HEIGHT} role="img"
      aria-label=${text}>
    <title>${text}</title>
    ${counts.map((each, index) => {
      const tall = each && Math.max(1, (each / most) * HEIGHT);
      return html`<rect x=${index * wide} y=${HEIGHT - tall} width=${Math.max(0.5, wide - 1)} height=${tall} />`;
    })}
  </svg>`;
}

/** The most frequent values with bars, as many as fit beside a column. */
export function Frequent({ values, most = 5 }) {
  const top = Math.max(1, ...values.map((each) => each.count));
  return html`<ul class="frequent">
    ${values.slice(0, most).map(
      ({ value, count: number }) => html`<li>
        <svg width="40" height="8" aria-hidden="true"><rect width=${(40 * number) / top} height="8" /></svg>
        <${Foreign} text=${String(value)} /> <span class="quiet">${count(number)}</span>
      </li>`,
    )}
  </ul>`;
}
