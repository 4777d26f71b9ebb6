// The views, in the order of the navigation. `load` imports a view's module when it is opened first: its default export
// is a component with the properties `steps` (the path's steps after the view's own) and `query` (URLSearchParams).
// `scope` is the one without which the view is not offered. `path` of a view that is not in the navigation has no `title`.

export const VIEWS = [
  { path: "overview", title: "Overview", scope: "read", load: () => import("./views/overview.js") },
  { path: "attachments", title: "Attachments", scope: "read", load: () => import("./views/attachments.js") },
  { path: "attachment", name: "Attachment", within: "attachments", scope: "read", load: () => import("./views/attachment.js") },
  { path: "send", title: "Send", scope: "send", load: () => import("./views/send.js") },
  { path: "delivery", name: "Delivery", within: "send", scope: "read", load: () => import("./views/delivery.js") },
  { path: "quarantine", title: "Quarantine", scope: "read", load: () => import("./views/quarantine.js") },
  { path: "tables", title: "Tables and SQL", scope: "read", load: () => import("./views/tables.js") },
  { path: "pipeline", title: "Pipeline", scope: "read", load: () => import("./views/pipeline.js") },
  { path: "trace", title: "Trace", scope: "read", load: () => import("./views/trace.js") },
];
