// Lists of any length of which only the visible rows exist. All rows have the same height.

import { html, onResize, useLayoutEffect, useRef, useState } from "../ui.js";

const TALLEST = 6_000_000; // pixels; browsers do not lay out elements that are much taller
const BAR = 18; // pixels for a scroll bar below the rows
const SPARE = 8; // rows beyond each edge

/**
 * Follow the scrolling of a box with `count` rows of `rowHeight` pixels.
 *
 * A list that would be taller than TALLEST is shown on a shorter element: small movements scroll by the pixel, and
 * jumps (of the scroll bar) in proportion. `virtual = real + offset`, where `real` is the position in the element.
 */
export function useVirtualRows(count, rowHeight, head = 0) {
  const box = useRef(null);
  const place = useRef({ real: 0, offset: 0 }).current;
  const [, redraw] = useState(0);
  const shown = useRef({ first: 0, last: -1, offset: 0 });
  const total = count * rowHeight + head;
  const height = Math.min(total, TALLEST);

  function settle(jumps) {
    const element = box.current;
    const window = element.clientHeight;
    const real = element.scrollTop;
    const [mostReal, mostVirtual] = [Math.max(0, height - window), Math.max(0, total - window)];
    if (mostReal === mostVirtual) {
      place.offset = 0;
    } else if (jumps || Math.abs(real - place.real) >= window) {
      place.offset = Math.round((real / mostReal) * mostVirtual) - real;
    } else {
      const virtual = Math.min(real + place.offset, mostVirtual);
      const left = mostVirtual - virtual;
      if (real <= 0 && virtual > 0) move(Math.min(virtual, mostReal / 2), virtual);
      else if (real >= mostReal - 1 && left > 1) move(mostReal - Math.min(left, mostReal / 2), virtual);
    }
    place.real = element.scrollTop;
  }

  function move(real, virtual) {
    real = Math.round(real);
    place.offset = virtual - real;
    box.current.scrollTop = real;
  }

  function update(jumps = false) {
    if (!box.current) return;
    settle(jumps);
    const top = place.real + place.offset;
    const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
    const last = Math.min(count - 1, Math.ceil((top + box.current.clientHeight) / rowHeight) + SPARE);
    const old = shown.current;
    if (first === old.first && last === old.last && place.offset === old.offset) return;
    shown.current = { first, last, offset: place.offset };
    redraw((number) => number + 1);
  }

  useLayoutEffect(() => onResize(box.current, () => update()), [count, rowHeight]);
  useLayoutEffect(() => update(), [count, rowHeight]);

  function scrollTo(index, onlyIfHidden = false) {
    const window = box.current.clientHeight;
    const wanted = index * rowHeight;
    const now = place.real + place.offset;
    if (onlyIfHidden && wanted >= now && wanted + rowHeight + head <= now + window) return;
    const virtual = Math.max(0, Math.min(wanted - (onlyIfHidden ? window / 2 : 0), total - window));
    if (total <= TALLEST) box.current.scrollTop = virtual;
    else move((virtual / (total - window)) * (height - window), virtual);
    place.real = box.current.scrollTop;
    update();
  }

  const { first, last } = shown.current;
  return {
    box,
    height,
    first,
    last: Math.min(last, count - 1),
    top: first * rowHeight - place.offset,
    onScroll: () => update(),
    scrollTo,
    position: () => place.real + place.offset,
  };
}

/**
 * A list in a box that scrolls. It is as tall as its rows, up to the max-height of its class.
 *
 * row(index): the row's content; keyOf(index): its key; onRange(first, last): called with what is visible;
 * control: a ref that gets {scrollTo, position}; roles: those of the box, its inner element and a row.
 */
export function VirtualList({
  count, rowHeight, row, keyOf = (index) => index, onRange, control, label, className = "", start = 0,
  roles = ["list", "presentation", "listitem"], rowProps = () => ({}), rowCount = count,
}) {
  const rows = useVirtualRows(count, rowHeight);
  if (control) control.current = rows;
  useLayoutEffect(() => {
    if (start) rows.scrollTo(start / rowHeight);
  }, []);
  useLayoutEffect(() => onRange?.(rows.first, rows.last), [rows.first, rows.last, count]);
  const items = [];
  for (let index = rows.first; index <= rows.last; index++) {
    const place = roles[2] === "row" ? { "aria-rowindex": index + 2 } : { "aria-posinset": index + 1, "aria-setsize": rowCount };
    items.push(html`<div class="virtual-row" role=${roles[2]} key=${keyOf(index)} style=${{ height: `${rowHeight}px` }}
      ...${place} ...${rowProps(index)}>${row(index)}</div>`);
  }
  return html`<div class="virtual ${className}" ref=${rows.box} onScroll=${rows.onScroll} tabindex="0" role=${roles[0]}
      aria-label=${label} style=${{ height: `${rows.height + BAR}px` }}>
    <div class="virtual-height" role=${roles[1]} style=${{ height: `${rows.height}px` }}>
      <div class="virtual-window" role=${roles[1]} style=${{ transform: `translateY(${rows.top}px)` }}>${items}</div>
    </div>
  </div>`;
}
