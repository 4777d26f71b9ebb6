// What happened to an attachment, in order.

import { Foreign, html } from "../ui.js";
import { clock, duration, number } from "./format.js";

const WORDS = {
  header: "Header arrived",
  "first-part": "First part arrived",
  "last-part": "Latest part arrived",
  count: "Count message arrived",
  "first-message": "First message arrived",
  "last-message": "Latest message arrived",
  complete: "All parts are here",
  finished: "Content can be read",
  settled: "Content was copied to the content store",
  read: "Content was read",
  "message-complete": "All attachments of its message are finished",
  "message-quarantined": "A message of it went to quarantine",
  damaged: "Content was found damaged",
  quarantined: "Content could not be read from the parts",
  expired: "Expired before it was complete",
  missing: "Its sender was asked for what is missing",
  "receipt-made": "Its receipt was made",
  deleted: "Deleted",
};

export function Timeline({ items }) {
  return html`<ol class="timeline">
    ${items.map((item, index) => {
      const after = index ? (new Date(item.time) - new Date(items[index - 1].time)) / 1000 : null;
      return html`<li class="timeline-${item.type}" key=${`${item.type} ${item.time} ${item.detail}`}>
        <time datetime=${item.time} title=${item.time}>${clock(item.time)}</time>
        <span class="timeline-what">${item.count > 1 && html`${number(item.count)} × `}${WORDS[item.type] ?? item.type}</span>
        ${item.detail && html`<span class="timeline-detail"><${Foreign} text=${item.detail} /></span>`}
        ${item.last_time && html`<span class="timeline-detail">the last at <time datetime=${item.last_time} title=${item.last_time}>${clock(item.last_time)}</time></span>`}
        ${after > 0 && html`<span class="timeline-after">+${duration(after)}</span>`}
      </li>`;
    })}
  </ol>`;
}
