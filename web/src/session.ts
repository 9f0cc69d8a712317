// Who this page is to the server: the token of the link it was opened with, and what that token allows.
//
// The token comes behind the # of the link, which no browser sends anywhere, and is kept for this origin only. It
// leaves the address bar at once, so that a link that somebody copies from there opens nothing.

import { signal } from "@preact/signals";

const KEY = "planloop.token";

export interface Session {
  plan: string;
  right: "read" | "change";
}

/** The token, empty when none was ever given. */
export function takeToken(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    localStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return localStorage.getItem(KEY) ?? "";
}

export const token = takeToken();

/** Set once, before anything is shown. */
export const session = signal<Session>({ plan: "", right: "read" });

/** Whether a plan is served, and not reports alone. */
export function hasPlan(): boolean {
  return session.value.plan !== "";
}
