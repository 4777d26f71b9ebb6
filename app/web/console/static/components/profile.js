// The profile of a data set: what values each column has.

import { ErrorBox, Foreign, Loading, html, useLoad, visible } from "../ui.js";
import * as rest from "../rest.js";
import { number } from "./format.js";
import { Frequent, Histogram } from "./histogram.js";
import { VirtualList } from "./virtual.js";

const ROW = 116; // pixels

/** A value as it is: whole numbers with separators, others with all their digits. */
const shown = (value) => (value == null ? "–" : Number.isSafeInteger(value) ? number(value) : visible(String(value)));

function missingOf(variable) {
  const kinds = Object.entries(variable.missing_values);
  if (!kinds.length) return "none missing";
  const all = kinds.reduce((sum, [, count]) => sum + count, 0);
  return `${number(all)} missing (${kinds.map(([kind, count]) => `${kind} ${number(count)}`).join(", ")})`;
}

function Column({ variable }) {
  const { histogram, frequent } = variable;
  return html`<div class="profile-column">
    <div><strong><${Foreign} text=${variable.name} /></strong> <code>${visible(variable.format)}</code>
      <div class="quiet">${visible(variable.label)}</div></div>
    <div>${number(variable.count)} values, ${missingOf(variable)}<br />
      ${variable.is_exact ? "" : "about "}${number(variable.distinct)} different<br />
      <bdi>${shown(variable.minimum)}</bdi> to <bdi>${shown(variable.maximum)}</bdi>${variable.mean == null ? "" : `, mean ${Number(variable.mean.toPrecision(7))}`}</div>
    <div>${histogram
      ? html`<${Histogram} counts=${histogram.counts} from=${shown(variable.minimum)} to=${shown(variable.maximum)} label=${visible(variable.name)} />`
      : html`<${Frequent} values=${frequent} most=${4} />`}</div>
  </div>`;
}

/** id: of the attachment. The data set is read once by the gateway for this. */
export function Profile({ id }) {
  const { value, error, loading, reload } = useLoad((signal) => rest.get(rest.resource("attachments", id, "profile"), { top: 5 }, signal), [id]);
  if (!value) return html`<${Loading} when=${loading} what="The gateway reads the data set" /><${ErrorBox} error=${error} retry=${reload} />`;
  return html`<${VirtualList} className="profile" label="Columns and their values" rowHeight=${ROW} count=${value.variables.length}
    row=${(index) => html`<${Column} variable=${value.variables[index]} />`} />`;
}
