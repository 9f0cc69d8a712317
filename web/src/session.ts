// The session with the server: the token of the link that opened the page, and what that token allows.
//
// The token follows the # of the link, which browsers do not send, and is stored for this origin only. The page removes
// it from the address bar, so that an address copied from there contains no token.

import { signal } from "@preact/signals";

const KEY = "planloop.token";

export interface Session {
  plan: string;
  right: "read" | "change";
}

/** Returns the token from the link or from an earlier visit; empty if there is none. */
export function takeToken(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    localStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return localStorage.getItem(KEY) ?? "";
}

export const token = takeToken();

/** Set once, before the page is rendered. */
export const session = signal<Session>({ plan: "", right: "read" });

/** Whether a plan is served, and not only reports. */
export function hasPlan(): boolean {
  return session.value.plan !== "";
}
