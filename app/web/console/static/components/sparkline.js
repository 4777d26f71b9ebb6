// A small chart of one row of numbers, the newest at the right: bars that need no axes.

import { html } from "../ui.js";

const HEIGHT = 24;

/** `values`: numbers, oldest first, of which at most `most` are shown; text: what the chart shows, also for those who do
 * not see it. */
export function Sparkline({ values, most, text }) {
  const shown = values.slice(-most);
  const highest = Math.max(1, ...shown);
  const bar = (value, index) => {
    const tall = value && Math.max(1, (HEIGHT * value) / highest);
    return html`<rect key=${index} x=${most - shown.length + index} y=${HEIGHT - tall} width="0.8" height=${tall} />`;
  };
  return html`<svg class="sparkline" role="img" aria-label=${text} viewBox="0 0 ${most} ${HEIGHT}" preserveAspectRatio="none">
    <line x1="0" x2=${most} y1=${HEIGHT} y2=${HEIGHT} />${shown.map(bar)}</svg>`;
}
