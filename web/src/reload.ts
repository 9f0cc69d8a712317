// Reloads the page if one of its files could not be fetched, because the network changed or because a newer build is
// served. It reloads only while the server answers: otherwise the browser would replace the page with its own error.

import { get } from "./api";

const KEY = "planloop.reload";

/** Reloads the page if the server answers. Throws Refused if it does not. */
export async function reload(): Promise<void> {
  await get("/session");
  location.reload();
}

/** Reloads without a click, once per address until a page has loaded there, so that a missing file causes no loop. */
export async function reloadOnce(): Promise<void> {
  if (sessionStorage.getItem(KEY) === location.href) return;
  const href = location.href;
  await get("/session");
  sessionStorage.setItem(KEY, href);
  location.reload();
}

/** Records that the page at this address has loaded. */
export function markLoaded(): void {
  sessionStorage.removeItem(KEY);
}
