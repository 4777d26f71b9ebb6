// A strip of sequence numbers: which parts are here, missing, duplicated or in conflict. Drawn from runs.

import { html, indexAt, onResize, onScheme, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { clock, number as count, range } from "./format.js";

const STATES = ["received", "duplicate", "conflict", "missing"];
const WORDS = { received: "received", duplicate: "received again", conflict: "in conflict", missing: "missing" };

/** Numbers of parts by state in a run; a `mixed` one tells how many are received. */
function shares(run, parts = run.count) {
  if (run.state !== "mixed") return { [run.state]: parts };
  const received = Math.round((run.received * parts) / run.count);
  return { received, missing: parts - received };
}

/** Return for each of `width` columns the numbers of parts by state: an array of width × 4. Linear in runs + width. */
export function columns(runs, first, last, width) {
  const found = new Float64Array(width * STATES.length);
  const scale = width / (last - first + 1);
  for (const run of runs) {
    const from = Math.max(run.first, first);
    const until = Math.min(run.first + run.count, last + 1); // exclusive
    if (until <= from) continue;
    const portion = Object.entries(shares(run)).map(([state, parts]) => [STATES.indexOf(state), parts / run.count]);
    const [left, right] = [(from - first) * scale, (until - first) * scale];
    for (let column = Math.floor(left); column < Math.min(width, Math.ceil(right)); column++) {
      const covered = Math.min(right, column + 1) - Math.max(left, column);
      for (const [state, part] of portion) found[column * STATES.length + state] += covered * part;
    }
  }
  return found;
}

/** Say what became of parts first to last. */
export function described(runs, first, last) {
  const found = {};
  let [earliest, latest] = [null, null];
  for (let at = indexAt(runs, "first", first); at < runs.length && runs[at].first <= last; at++) {
    const run = runs[at];
    const parts = Math.min(run.first + run.count - 1, last) - Math.max(run.first, first) + 1;
    if (parts <= 0) continue;
    for (const [state, number] of Object.entries(shares(run, parts))) found[state] = (found[state] ?? 0) + number;
    const [from, until] = [run.first_received_at, run.last_received_at];
    if (from && (!earliest || from < earliest)) earliest = from;
    if (until && (!latest || until > latest)) latest = until;
  }
  const known = STATES.filter((state) => found[state]);
  const words = known.map((state) => (known.length > 1 ? `${count(found[state])} ${WORDS[state]}` : WORDS[state]));
  const times = earliest ? [clock(earliest), clock(latest)] : [];
  const when = times.length ? `, ${times[0] === times[1] ? times[0] : times.join(" to ")}` : "";
  return `${first === last ? "Part" : "Parts"} ${range(first, last)}: ${words.join(", ") || "not known"}${when}`;
}

/** Say in a line which parts are missing. */
export function summary(parts) {
  const { expected, received, runs } = parts;
  const missing = runs.filter((run) => run.state === "missing");
  const mixed = runs.some((run) => run.state === "mixed");
  const shown = missing.slice(0, 5).map((run) => range(run.first, run.first + run.count - 1));
  const gaps = missing.length > shown.length || mixed ? [...shown, "and others"] : shown;
  const isPiece = parts.first > 1 || (expected !== null && parts.last < expected);
  const of = expected === null ? "; their number is not known yet" : ` of ${count(isPiece ? parts.last - parts.first + 1 : expected)}`;
  return `${count(received)} part${received === 1 ? "" : "s"}${of}${gaps.length ? `; missing ${gaps.join(", ")}` : ""}`;
}

function draw(canvas, runs, first, last) {
  const ratio = globalThis.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const style = getComputedStyle(canvas);
  const colours = STATES.map((state) => style.getPropertyValue(`--gap-${state}`).trim() || "gray");
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  const found = columns(runs, first, last, width);
  const least = Math.min(height, 3 * ratio);
  for (let column = 0; column < width; column++) {
    const at = column * STATES.length;
    const all = found[at] + found[at + 1] + found[at + 2] + found[at + 3];
    let bottom = height;
    // What is wrong is at the top, and never too small to be seen.
    for (let state = STATES.length - 1; state >= 0; state--) {
      if (found[at + state] <= 1e-9) continue;
      const share = state ? Math.max(least, Math.round((height * found[at + state]) / all)) : bottom;
      const tall = Math.min(bottom, share);
      context.fillStyle = colours[state];
      context.fillRect(column, height - bottom, 1, tall);
      bottom -= tall;
    }
  }
  const parts = last - first + 1;
  if (parts > 1 && width / parts >= 6 * ratio) {
    context.fillStyle = style.getPropertyValue("--gap-line").trim() || "white";
    for (let part = 1; part < parts; part++) context.fillRect(Math.round((part * width) / parts), 0, ratio, height);
  }
}

/** parts: the answer of …/parts. onZoom(first, last): called when a piece of the bar is chosen. */
export function GapBar({ parts, onZoom, compact = false, label = "Parts" }) {
  const canvas = useRef(null);
  const [at, setAt] = useState(null); // the first and the last part that the pointer or the keys show
  const { runs, first, last } = parts;
  const number = Math.max(1, last - first + 1);

  useLayoutEffect(() => {
    const again = () => canvas.current && draw(canvas.current, runs, first, last);
    again();
    const ends = [onResize(canvas.current, again), onScheme(again)];
    return () => { for (const end of ends) end(); };
  }, [parts]);
  useEffect(() => setAt(null), [first, last]);

  if (compact)
    return html`<canvas class="gap-bar compact" ref=${canvas} role="img" aria-label=${`${label}: ${summary(parts)}`} />`;

  const under = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.max(0, Math.min(box.width - 1, event.clientX - box.left));
    const from = first + Math.floor((column * number) / box.width);
    const until = Math.max(from, first + Math.ceil(((column + 1) * number) / box.width) - 1);
    return [from, Math.min(last, until)];
  };
  const ofRun = (index) => {
    const run = runs[Math.max(0, Math.min(runs.length - 1, index))];
    return run && [Math.max(first, run.first), Math.min(last, run.first + run.count - 1)];
  };
  const zoom = ([from, until]) => {
    const least = Math.max(10, Math.ceil(number / 20));
    if (!onZoom || number <= 10) return;
    const middle = Math.floor((from + until) / 2);
    const wanted = Math.max(least, until - from + 1);
    const start = Math.max(first, Math.min(last - wanted + 1, middle - Math.floor(wanted / 2)));
    onZoom(start, Math.min(last, start + wanted - 1));
  };
  const onKeyDown = (event) => {
    const now = at ? indexAt(runs, "first", at[0]) : -1;
    const index = { ArrowRight: now + 1, ArrowLeft: Math.max(0, now - 1), Home: 0, End: runs.length - 1 }[event.key];
    if (index !== undefined) setAt(ofRun(index));
    else if (event.key === "Enter" && at) zoom(at);
    else return;
    event.preventDefault();
  };
  const text = at ? described(runs, ...at) : summary(parts);
  const share = (value) => `${(100 * (value - first)) / number}%`;
  return html`<div class="gap">
    <div class="gap-strip" role="slider" tabindex="0" aria-label=${label} aria-valuemin=${first} aria-valuemax=${last}
        aria-valuenow=${at ? at[0] : first} aria-valuetext=${text} onKeyDown=${onKeyDown}
        onPointerMove=${(event) => setAt(under(event))} onPointerLeave=${() => setAt(null)}
        onClick=${(event) => zoom(under(event))}>
      <canvas class="gap-bar" ref=${canvas} aria-hidden="true" />
      ${at && html`<div class="gap-mark" style=${{ left: share(at[0]), width: share(first + at[1] - at[0] + 1) }} />`}
    </div>
    <div class="gap-text" role="status">${text}</div>
    <ul class="gap-key" aria-hidden="true">
      ${STATES.map((state) => html`<li><span class="gap-colour ${state}"></span>${WORDS[state]}</li>`)}
    </ul>
  </div>`;
}
