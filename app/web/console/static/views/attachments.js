// The list of attachments: endless, live, and it keeps its place.

import * as rest from "../rest.js";
import { number, plural, size } from "../components/format.js";
import { GapBar } from "../components/gap_bar.js";
import { VirtualList } from "../components/virtual.js";
import { Choice, Copy, Empty, ErrorBox, Fold, Foreign, Loading, State, Time, html, href, replaceQuery, useEffect, useEvents, useEvery, useMemo, useRef, useSmall, useState } from "../ui.js";

const PATH = "v1/attachments";
const PAGE = 200;
const MOST_PAGES = 25; // of new attachments at once
const AHEAD = 100; // rows that are read before they come into view
const ROW = 44; // pixels
const CARD = 96; // pixels: a row on a small screen
const AGAIN = 2000; // milliseconds
const TYPED = 300;
const STATES = ["receiving", "complete", "finished", "quarantined", "expired", "deleted"];
const KINDS = ["text-file", "binary-file", "data-set"];
const FILTERS = [
  "state", "kind", "source", "name", "message", "received_after", "received_before", "announced", "warned",
];
const UNFINISHED = new Set(["receiving", "complete"]);

/** What the list holds of an attachment: 100,000 of them fit into memory. */
const brief = (each) => ({
  id: each.id, name: each.name, state: each.state, kind: each.kind, source: each.source, size: each.size,
  received: each.progress.parts_received, expected: each.progress.parts_expected, bytes: each.progress.bytes_received,
  duplicates: each.progress.duplicates, at: each.first_received_at, last: each.last_received_at, reason: each.reason?.text,
  warnings: each.warnings_count,
});

/** The number in a response, and whether it is only a part of them. */
function counted(response) {
  const text = response.headers.get("Total-Count");
  return [Number.parseInt(text, 10), text.endsWith("+")];
}

/** The list by its filters, kept while another view is open. */
let kept = null;

/** Items of a filter, newest first, and the means to read more and to follow changes. */
class Listing {
  constructor(query, changed) {
    this.query = query;
    this.changed = changed;
    this.ended = false;
    this.busy = false;
    this.refreshing = false;
    this.begin();
  }

  begin() {
    this.items = [];
    this.places = new Map(); // id -> index, less the number of those that were put in front since
    this.shift = 0; // how many were put in front
    this.fresh = []; // newer than the first shown one
    this.isApart = false; // too many have come at once: between the newest ones and `items` some are not loaded
    this.newer = 0; // how many those are
    this.first = 0; // the first row in view
    this.next = undefined; // the cursor of the next page; null: there is none
    this.total = null;
    this.isPart = false; // `total` is a part of the number
    this.error = null;
    this.place = 0;
  }

  at(id) {
    const place = this.places.get(id);
    return place === undefined ? -1 : place + this.shift;
  }

  async more() {
    if (this.busy || this.next === null || this.ended) return;
    this.busy = true;
    const cursor = this.next;
    const isFirst = cursor === undefined;
    try {
      const response = await rest.request("GET", PATH, { query: { ...this.query, limit: PAGE, cursor, count: isFirst || undefined } });
      const page = await response.json();
      if (cursor !== this.next) {
        this.busy = false; // The list has begun anew meanwhile.
        return this.more();
      }
      if (isFirst) [this.total, this.isPart] = counted(response);
      for (const each of page.items) {
        if (this.places.has(each.id)) continue;
        this.places.set(each.id, this.items.length - this.shift);
        this.items.push(brief(each));
      }
      this.next = page.next;
      this.error = null;
      if (!page.items.length && this.next !== null && !this.ended) {
        this.busy = false; // A page may end early, also without any item.
        return this.more();
      }
    } catch (error) {
      this.error = error;
    }
    this.busy = false;
    this.changed();
  }

  /**
   * Read the newest pages again, down to one that is known: known ones get their new values, others wait in `fresh` until
   * they are shown. After very many new ones the list begins anew, unless it would lose its place.
   */
  async refresh(isAtTop) {
    if (this.next === undefined || this.ended || this.refreshing) return;
    this.refreshing = true;
    try {
      if (this.isApart) await this.follow(isAtTop);
      else await this.join(isAtTop);
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.refreshing = false;
    this.changed();
  }

  async anew() {
    this.begin();
    await this.more();
  }

  async join(isAtTop) {
    const known = new Map(this.fresh.map((each, index) => [each.id, index]));
    const added = [];
    let [cursor, isJoined, pages] = [undefined, false, 0];
    do {
      const page = await rest.get(PATH, { ...this.query, limit: PAGE, cursor });
      for (const each of page.items) {
        const place = known.get(each.id);
        isJoined ||= place !== undefined || this.places.has(each.id);
        if (this.places.has(each.id)) this.update(each);
        else if (place !== undefined) this.fresh[place] = brief(each);
        // Older than what is loaded: it will come with its page.
        else if (!this.items.length || each.first_received_at >= this.items[0].at) added.push(brief(each));
        else isJoined = true;
      }
      cursor = page.next;
    } while (!isJoined && cursor && ++pages < MOST_PAGES);
    if (!isJoined && cursor && this.items.length && added.length) {
      this.isApart = true;
      this.total -= this.fresh.length; // `newer` counts them.
      this.fresh = [];
      await this.follow(isAtTop);
    } else {
      if (this.total !== null) this.total += added.length;
      this.fresh = [...added, ...this.fresh];
      if (isAtTop) this.show();
    }
  }

  /** Count the newer ones, and read again what is in view, which is found by the time of its first row. */
  async follow(isAtTop) {
    if (isAtTop) return this.anew();
    const { at } = this.items[Math.min(this.first, this.items.length - 1)];
    const before = new Date(Date.parse(at) + 1).toISOString();
    const [newest, inView] = await Promise.all([
      rest.request("GET", PATH, { query: { ...this.query, limit: 1, count: true, received_after: this.items[0].at } }),
      rest.get(PATH, { ...this.query, limit: PAGE, received_before: before }),
    ]);
    [this.newer] = counted(newest);
    for (const each of inView.items) this.update(each);
  }

  /** Put the new ones in front. */
  show() {
    if (!this.fresh.length) return;
    this.shift += this.fresh.length;
    this.fresh.forEach((each, index) => this.places.set(each.id, index - this.shift));
    this.items = [...this.fresh, ...this.items];
    this.fresh = [];
  }

  update(each) {
    const index = this.at(each.id);
    if (index >= 0) this.items[index] = brief(each);
  }
}

/** The bar of an unfinished attachment, read when its row is shown and again when more has come. */
function Gap({ item }) {
  const [parts, set] = useState(null);
  useEffect(() => {
    const aborting = new AbortController();
    rest.get(`${PATH}/${item.id}/parts`, {}, aborting.signal).then(set, () => {});
    return () => aborting.abort();
  }, [item.id, item.received, item.expected, item.duplicates]);
  if (!parts) return html`<span class="gap-bar compact"></span>`;
  return html`<${GapBar} compact parts=${parts} label="Parts" />`;
}

function Row({ item }) {
  const progress = item.expected === null ? `${number(item.received)} of ?` : `${number(item.received)} of ${number(item.expected)}`;
  return html`
    <span role="cell" class="name"><a href=${href(["attachment", item.id])} title=${item.name}><${Foreign} text=${item.name} empty="(no name)" /></a>${item.warnings > 0 && html` <span class="warned" title=${plural(item.warnings, "warning")}>⚠ ${number(item.warnings)}<span class="visually-hidden">${item.warnings === 1 ? " warning" : " warnings"}</span></span>`}</span>
    <span role="cell"><${State} of=${item.state} /></span>
    <span role="cell" class="kind">${item.kind ?? "not known"}</span>
    <span role="cell" class="source"><${Foreign} text=${item.source} /></span>
    <span role="cell" class="size">${size(item.size ?? item.bytes)}</span>
    <span role="cell" class="progress-cell">${UNFINISHED.has(item.state)
      ? html`<${Gap} item=${item} /><span class="parts">${progress}<span class="visually-hidden"> parts</span></span>`
      : item.reason ? html`<span class="hint" title=${item.reason}><${Foreign} text=${item.reason} /></span>` : ""}</span>
    <span role="cell" class="when"><${Time} at=${item.at} /></span>`;
}

const local = (text) => {
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16) : "";
};

/** A field whose text becomes a filter shortly after it was typed. What is typed stays while the list is drawn anew. */
function TextFilter({ label, value, change, className }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const now = event.target.value;
    setText(now);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => change(now), TYPED);
  };
  return html`<label>${label}<input type="search" class=${className} value=${text} onInput=${typed} /></label>`;
}

function Filters({ query, sources }) {
  const filter = (name, value) => replaceQuery({ ...query, [name]: value });
  const change = (name) => (event) => {
    const value = event.target.value;
    filter(name, name.startsWith("received") && value ? new Date(value).toISOString() : value);
  };
  const choice = (name, label, values) => html`<${Choice} label=${label} value=${query[name] ?? ""} values=${values} change=${(value) => filter(name, value)} />`;
  const given = Object.keys(query).length;
  return html`<${Fold} label=${given ? `Filters: ${given}` : "Filters"}><form class="bar" role="search" aria-label="Filter attachments" onSubmit=${(event) => event.preventDefault()}>
    <label>Header<select value=${query.announced ?? ""} onChange=${change("announced")}>
      <option value="">has arrived</option><option value="false" selected=${query.announced === "false"}>has not arrived</option></select></label>
    ${choice("state", "State", STATES)}${choice("kind", "Kind", KINDS)}${choice("source", "Source", sources)}
    <label>Warnings<select value=${query.warned ?? ""} onChange=${change("warned")}>
      <option value="">any</option>${[["true", "with warnings"], ["false", "without"]].map(([value, text]) => html`<option value=${value} selected=${query.warned === value}>${text}</option>`)}</select></label>
    <${TextFilter} label="Name contains" value=${query.name ?? ""} change=${(text) => filter("name", text)} />
    <${TextFilter} label="Message" value=${query.message ?? ""} change=${(text) => filter("message", text.trim())} className="mono" />
    <label>Received after<input type="datetime-local" value=${local(query.received_after)} onChange=${change("received_after")} /></label>
    <label>Received before<input type="datetime-local" value=${local(query.received_before)} onChange=${change("received_before")} /></label>
    ${given > 0 && html`<button type="button" onClick=${() => replaceQuery({})}>No filter</button>`}
  </form></${Fold}>`;
}

export default function Attachments({ query: given }) {
  const query = useMemo(() => Object.fromEntries(FILTERS.map((name) => [name, given.get(name)]).filter(([, value]) => value)), [given.toString()]);
  const [, redraw] = useState(0);
  const [sources, setSources] = useState([]);
  const list = useRef(null);
  const control = useRef(null);
  const key = JSON.stringify(query);

  const drawing = useRef(false);
  const draw = () => {
    // A frame draws what several answers brought.
    if (drawing.current) return;
    drawing.current = true;
    requestAnimationFrame(() => {
      drawing.current = false;
      redraw((turn) => turn + 1);
    });
  };
  if (list.current?.key !== key) {
    if (list.current) list.current.ended = true;
    if (kept?.key === key && kept.items.length) {
      list.current = kept;
      list.current.ended = false;
      list.current.changed = draw;
    } else {
      list.current = new Listing(query, draw);
      list.current.key = key;
    }
    kept = list.current;
  }
  const listing = list.current;
  const row = useSmall() ? CARD : ROW;
  const isAtTop = () => (control.current?.position() ?? 0) < row;

  useEffect(() => {
    if (listing.next === undefined) listing.more();
    else listing.refresh(false);
    return () => { listing.place = control.current?.position() ?? 0; };
  }, [listing]);
  useEvery(AGAIN, () => listing.refresh(isAtTop()));
  useEffect(() => () => { list.current.ended = true; }, []);
  useEffect(() => void rest.get("v1/summary").then((found) => setSources(found.sources.map((each) => each.name)), () => {}), []);
  useEvents(["attachment.*"], async (events) => {
    // The newest page has the others, unless a filter no longer lets them through.
    const changed = [...new Set(events.map((event) => event.subject))].filter((id) => listing.at(id) >= (listing.isApart || Object.keys(query).length ? 0 : PAGE)).slice(0, 50);
    await Promise.all(changed.map((id) => rest.get(`${PATH}/${id}`).then((each) => listing.update(each), () => {})));
    // What waited for its header leaves its list, and an attachment may have its place in the midst of what is loaded.
    listing.isApart ||= listing.items.length > 0 && events.some((event) => event.type === "attachment.identified");
    listing.refresh(isAtTop());
  }, 1000);

  const { items, total, error } = listing;
  const fresh = listing.fresh.length + listing.newer;
  const onRange = (first, last) => {
    listing.first = first;
    if (last >= items.length - AHEAD) listing.more();
  };
  const showFresh = async () => {
    if (listing.isApart) await listing.anew();
    else listing.show();
    control.current.scrollTo(0);
    draw();
  };
  const all = listing.next === null ? items.length + fresh : Math.max((total ?? 0) + listing.newer, items.length + fresh);
  const isPart = listing.isPart && listing.next !== null;
  return html`<h1>Attachments</h1>
    <${Filters} query=${query} sources=${sources} />
    <${ErrorBox} error=${error} retry=${() => (items.length ? listing.refresh(false) : listing.more())} />
    <div class="attachments" role="table" aria-label="Attachments, newest first" aria-rowcount=${isPart ? -1 : all + 1}>
      <div role="rowgroup"><div role="row" class="attachments-head" aria-rowindex="1">
        ${["Name", "State", "Kind", "Source", "Size", "Parts", "Received"].map((name, index) => html`<span role="columnheader"
          class=${["name", "", "kind", "source", "size", "progress-cell", "when"][index]}>${name}</span>`)}
      </div></div>
      <${VirtualList} key=${`${row} ${key}`} className="attachments-rows" count=${items.length} rowHeight=${row} control=${control} onRange=${onRange} start=${listing.place}
        roles=${["rowgroup", "presentation", "row"]} label="Attachments" keyOf=${(index) => items[index].id}
        row=${(index) => html`<${Row} item=${items[index]} />`} />
    </div>
    ${!items.length && (listing.next === undefined || listing.busy ? html`<${Loading} when=${!error} />` : html`<${Empty}>${query.announced ? "Nothing without a header" : "No attachment"} ${Object.keys(query).length ? "matches the filter" : "has arrived yet"}.</${Empty}>`)}
    <p class="more"><span role="status">${isPart ? "At least " : ""}${query.announced ? `${number(all)} without a header, not known to be attachments` : plural(all, "attachment")}${items.length < all - fresh ? `, ${number(items.length)} of them loaded; the others load as you scroll` : ""}</span>
      ${fresh > 0 && html`<button type="button" class="primary" onClick=${showFresh}>Show ${number(fresh)} new</button>`}
      <${Copy} text=${() => rest.curl("GET", PATH, { query })} /></p>`;
}
