// The page loaded anew, where a part of it could not be fetched: because a network of this machine came or went
// meanwhile, or because another version is served by now. Never while the server is gone: the browser would put its own
// error in place of all that is still to be seen here.

import { get } from "./api";

const KEY = "planloop.anew";

/** Loads the page anew if the server answers. Throws Refused when it does not. */
export async function loadAnew(): Promise<void> {
  await get("/session");
  location.reload();
}

/** The same, unasked: once at each place until a page was shown there, so that what cannot be had is not asked on. */
export async function loadAnewOnce(): Promise<void> {
  if (sessionStorage.getItem(KEY) === location.href) return;
  const href = location.href;
  await get("/session");
  sessionStorage.setItem(KEY, href);
  location.reload();
}

/** What is looked at could be fetched. */
export function isFetched(): void {
  sessionStorage.removeItem(KEY);
}
