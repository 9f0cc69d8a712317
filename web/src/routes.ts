// The current page and its subject, as a path in the address bar, so that every object has a link.

import { batch, signal } from "@preact/signals";

export const PAGES = ["plan", "edit", "agents", "locks", "containers", "approvals", "history", "benchmarks"] as const;
export type PageName = (typeof PAGES)[number];

export interface Place {
  page: PageName;
  /** The path after the page's name, such as `frontend/ui` in /agents/frontend/ui; empty for the page itself. */
  rest: string;
}

const ROOT = "~";

export const place = signal<Place>(read(location.pathname));

export type View = "tree" | "graph";

/** How the plan is drawn. Links to the plan contain it, so that a copied link shows the same view. */
export const view = signal<View>(viewIn(location.search));

export function href(page: PageName, rest = ""): string {
  const search = page === "plan" && view.value === "graph" ? "?view=graph" : "";
  return `/${page}${rest ? `/${rest.split("/").map(segment).join("/")}` : ""}${search}`;
}

export function go(page: PageName, rest = ""): void {
  enter(href(page, rest));
}

/** Switches the plan to the view `wanted`. */
export function show(wanted: View): void {
  view.value = wanted;
  history.replaceState(history.state, "", href(place.value.page, place.value.rest));
}

/** Opens a link of this page. A link to the current address adds no entry to the browser's history. */
function enter(link: string): void {
  if (new URL(link, location.href).href !== location.href) history.pushState(null, "", link);
  arrive();
}

/** Sets the place from the address bar. */
function arrive(): void {
  batch(() => {
    place.value = read(location.pathname);
    if (place.value.page === "plan") view.value = viewIn(location.search);
  });
}

function viewIn(search: string): View {
  return new URLSearchParams(search).get("view") === "graph" ? "graph" : "tree";
}

/** Returns the link to an object, on the page that shows its kind. */
export function linkTo(address: string): string {
  const [kind, ...path] = address.split("/");
  const rest = path.join("/");
  switch (kind) {
    case "agent":
      return href("agents", rest);
    case "lock":
    case "conflict":
      return href("locks", address);
    case "container":
      return href("containers", rest);
    case "approval":
      return href("approvals", rest);
    default:
      return href("plan", address);
  }
}

function read(pathname: string): Place {
  const [page = "", ...rest] = pathname.slice(1).split("/");
  const known = PAGES.find((name) => name === page);
  return known === undefined
    ? { page: "plan", rest: "" }
    : { page: known, rest: rest.map((part) => (part === ROOT ? "." : decoded(part))).join("/") };
}

/** Decodes a part of a path; returns it unchanged if the encoding is invalid. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Encodes a part of a path. Browsers remove `.` from paths, even if encoded, so the root's address becomes `~`. */
function segment(part: string): string {
  return part === "." ? ROOT : encodeURIComponent(part);
}

/** Makes links within the page and the back button change the place without a reload. */
export function listen(): void {
  addEventListener("popstate", arrive);
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || opensElsewhere(event)) return;
    if (link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin) return;
    if (link.hash && link.pathname === location.pathname) return; // Within this page: the browser moves the focus.
    event.preventDefault();
    enter(link.href);
  });
}

/** Whether a click makes the browser open a link in another tab or window, or do something else with it. */
export function opensElsewhere(event: MouseEvent): boolean {
  return event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
}
