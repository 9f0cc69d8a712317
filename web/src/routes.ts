// Where one is: a page and what it is about, as the path of the address bar, so that every object has a link.

import { batch, signal } from "@preact/signals";

export const PAGES = ["plan", "edit", "agents", "locks", "containers", "approvals", "history", "benchmarks"] as const;
export type PageName = (typeof PAGES)[number];

export interface Place {
  page: PageName;
  /** What stands behind the page's name, such as `frontend/ui` in /agents/frontend/ui; empty for the page itself. */
  rest: string;
}

const ROOT = "~";

export const place = signal<Place>(read(location.pathname));

export type View = "tree" | "graph";

/** How the plan is drawn. It is part of the links to the plan, so that they show it as whoever copies them sees it. */
export const view = signal<View>(viewIn(location.search));

export function href(page: PageName, rest = ""): string {
  const way = page === "plan" && view.value === "graph" ? "?view=graph" : "";
  return `/${page}${rest ? `/${rest.split("/").map(segment).join("/")}` : ""}${way}`;
}

export function go(page: PageName, rest = ""): void {
  enter(href(page, rest));
}

/** Draws the plan so from here on. */
export function show(wanted: View): void {
  view.value = wanted;
  history.replaceState(history.state, "", href(place.value.page, place.value.rest));
}

/** Moves the place to a link of this page; where one is already nothing is to go back from. */
function enter(link: string): void {
  if (new URL(link, location.href).href !== location.href) history.pushState(null, "", link);
  arrive();
}

/** Has the place be what the address bar says. */
function arrive(): void {
  batch(() => {
    place.value = read(location.pathname);
    if (place.value.page === "plan") view.value = viewIn(location.search);
  });
}

function viewIn(search: string): View {
  return new URLSearchParams(search).get("view") === "graph" ? "graph" : "tree";
}

/** The link to an object: the page that shows its kind. */
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

/** A part of a path; as it stands where somebody typed what is no encoding. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Browsers take a `.` out of a path, encoded or not, so the root's stands for itself by another sign. */
function segment(part: string): string {
  return part === "." ? ROOT : encodeURIComponent(part);
}

/** Has links within the page and the back button move the place instead of loading the page anew. */
export function listen(): void {
  addEventListener("popstate", arrive);
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || opensElsewhere(event)) return;
    if (link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin) return;
    if (link.hash && link.pathname === location.pathname) return; // To a part of this page: the browser moves the focus.
    event.preventDefault();
    enter(link.href);
  });
}

/** Whether a click has the browser open a link in another tab or window, or do something else than go there. */
export function opensElsewhere(event: MouseEvent): boolean {
  return event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
}
