// Numbers, durations and ranges as people read them, beside those of ui.js.

import { number, size, time } from "../ui.js";

export { number, size };

export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** How many, or how many bytes, a second. */
export const rate = (value, isBytes = false) => (value == null ? "–" : `${isBytes ? size(value) : number(value)}/s`);

/** The time of a day with milliseconds. */
export const clock = (text) => `${time(text)}.${String(new Date(text).getMilliseconds()).padStart(3, "0")}`;

export function duration(seconds) {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** Part numbers: "7" or "3–9". */
export const range = (first, last) => (first === last ? number(first) : `${number(first)}–${number(last)}`);
