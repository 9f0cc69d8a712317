// Combines pages of revisions into one list. The newest page is read repeatedly, older pages once.

import type { components } from "../../api-types";

export type Page = components["schemas"]["History"];
export type Change = components["schemas"]["Change"];

export interface Known {
  rows: ReadonlyMap<number, Change>;
  /** Where the next older page starts; null after the oldest page. */
  earlier: number | null;
}

/** Returns the list with the newest page. */
export function withNewest(known: Known | undefined, page: Page): Known {
  const meets = page.earlier === null || page.revisions.some((one) => known?.rows.has(one.rev));
  // If more revisions arrived than fit a page, those between are not loaded: the list then ends with this page.
  if (known === undefined || !meets) return { rows: joined(new Map(), page), earlier: page.earlier };
  return { rows: joined(known.rows, page), earlier: page.earlier === null ? null : known.earlier };
}

/** Returns the list with the page before the revision `before`. Ignores a page that was already added. */
export function withOlder(known: Known, before: number, page: Page): Known {
  return known.earlier === before ? { rows: joined(known.rows, page), earlier: page.earlier } : known;
}

/** Returns the revisions, newest first. */
export function listed(known: Known): Change[] {
  return [...known.rows.values()].sort((one, other) => other.rev - one.rev);
}

function joined(rows: ReadonlyMap<number, Change>, page: Page): ReadonlyMap<number, Change> {
  return new Map([...rows, ...page.revisions.map((one) => [one.rev, one] as const)]);
}
