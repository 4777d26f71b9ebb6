// Model tools: whether language models may use this gateway, how their programs are configured, and what they may do.

import { Copy, Empty, Pending, Table, html, session, useLoad } from "../ui.js";
import * as rest from "../rest.js";

const KEY = "agw_…"; // The key of this tab is never shown: a model's program gets one of its own.

/** How a program that speaks the protocol is configured: over HTTP, or by a local program. */
const configurations = (address, hasKey) => [
  ["Over HTTP", { type: "http", url: address, ...(hasKey ? { headers: { Authorization: `Bearer ${KEY}` } } : {}) }],
  ["By a local program (stdio)", { command: "attachment-gateway", args: ["mcp"], env: {
    ATTACHMENT_GATEWAY_URL: rest.gateway.href.replace(/\/$/, ""), ...(hasKey ? { ATTACHMENT_GATEWAY_TOKEN: KEY } : {}),
  } }],
].map(([title, server]) => [title, JSON.stringify({ mcpServers: { "attachment-gateway": server } }, null, 2)]);

export default function Tools() {
  const { value, error, reload } = useLoad((signal) => rest.get("v1/tools", {}, signal), []);
  if (!value) return html`<h1>Model tools</h1><${Pending} error=${error} retry=${reload} />`;
  const address = new URL("mcp", rest.gateway).href;
  return html`<h1>Model tools</h1>
    <p>Language models find and read attachments by the Model Context Protocol. Each tool is an operation of REST, with the scopes and limits of the key.</p>
    ${value.mcp ? html`<p role="status">MCP is on, at <code>${address}</code>.</p>
      <h2>Configuration</h2>
      ${session.caller.kind !== "anonymous" && html`<p>Write a key in place of <code>${KEY}</code>. Make one for the model alone, which can only read: <code>attachment-gateway keys create assistant --scope read</code></p>`}
      ${configurations(address, session.caller.kind !== "anonymous").map(([title, text]) => html`<section key=${title} aria-label=${title}><h3>${title}</h3>
        <pre tabindex="0">${text}</pre><${Copy} text=${text} label="copy" what="configuration" /></section>`)}
      <h2>Tools for you</h2>
      <${Table} label="Tools" head=${["Tool", "Changes", "Description"]}>
        ${value.items.map((one) => html`<tr key=${one.name}><td><code>${one.name}</code></td><td>${one.changes ? "yes" : "no"}</td><td>${one.description}</td></tr>`)}
      </${Table}>
      <p><${Copy} text=${() => rest.curl("GET", "v1/tools")} /></p>`
    : html`<${Empty}>MCP is off at this gateway. To switch it on, set <code>mcp = true</code> in <code>[http]</code> of its settings, and start it again.</${Empty}>`}`;
}
