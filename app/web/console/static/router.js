// Addresses of views: #/quarantine/5?state=open. They are in the fragment, so that every path of a proxy works.

import { useEffect, useState } from "./vendor/hooks.mjs";

/** Return {path: ["quarantine", "5"], query: URLSearchParams} of the address. */
export function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** Return the address of a view: its path's steps, and what its query has; empty values are left out. */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

export function navigate(path, query) {
  location.hash = href(path, query);
}

/** Change the query of the address without a step in the history, as a filter does while it is typed. */
export function replaceQuery(query) {
  history.replaceState(null, "", href(route().path, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute() {
  const [current, set] = useState(route);
  useEffect(() => {
    const changed = () => set(route());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return current;
}

function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
