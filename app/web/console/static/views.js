// The views, in the order of the navigation. `load` imports a view's module when it is opened first: its default export
// is a component with the properties `steps` (the path's steps after the view's own) and `query` (URLSearchParams).
// `scope` is the one without which the view is not offered. `path` of a view that is not in the navigation has no `title`.
// `most` is how many steps an address of the view may have.

export const VIEWS = [
  { path: "overview", title: "Overview", scope: "read", load: () => import("./views/overview.js") },
  { path: "attachments", title: "Attachments", scope: "read", load: () => import("./views/attachments.js") },
  { path: "attachment", most: 1, name: "Attachment", within: "attachments", scope: "read", load: () => import("./views/attachment.js") },
  { path: "send", title: "Send", scope: "send", load: () => import("./views/send.js") },
  { path: "delivery", most: 1, name: "Delivery", within: "send", scope: "read", load: () => import("./views/delivery.js") },
  { path: "quarantine", most: 1, title: "Quarantine", scope: "read", load: () => import("./views/quarantine.js") },
  { path: "tables", most: 1, title: "Tables and SQL", scope: "read", load: () => import("./views/tables.js") },
  { path: "pipeline", title: "Pipeline", scope: "read", load: () => import("./views/pipeline.js") },
  { path: "tools", title: "Model tools", scope: "read", load: () => import("./views/tools.js") },
  { path: "trace", title: "Trace", scope: "read", load: () => import("./views/trace.js") },
];

/** Addresses that people guess from those of REST: the path and the query of the view that is meant. */
const MEANT = {
  attachment: (id) => [id ? ["attachment", id] : ["attachments"]],
  attachments: (id) => [["attachment", id]],
  deliveries: (id) => [id ? ["delivery", id] : ["send"]],
  delivery: () => [["send"]],
  messages: (id) => [["attachments"], { message: id }],
};

/** Return the path and the query of the view that an address means, null if it is that of a view or means none. */
export function meant(path) {
  const [name, ...steps] = path;
  const isView = VIEWS.some((view) => view.path === name) && (steps.length > 0) === ["attachment", "delivery"].includes(name);
  return isView || steps.length > 1 || !Object.hasOwn(MEANT, name ?? "") ? null : MEANT[name](steps[0]);
}
