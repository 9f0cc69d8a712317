// The revisions that were read so far, put together from pages: the newest page is read again and again, older ones once.

import type { components } from "../../api-types";

export type Page = components["schemas"]["History"];
export type Change = components["schemas"]["Change"];

export interface Known {
  rows: ReadonlyMap<number, Change>;
  /** Where the next older page begins; null when nothing is older. */
  earlier: number | null;
}

/** What is known with the newest page as it is now. */
export function withNewest(known: Known | undefined, page: Page): Known {
  const meets = page.earlier === null || page.revisions.some((one) => known?.rows.has(one.rev));
  // When more came than a page holds, nobody has read what lies between: the list ends where the page does.
  if (known === undefined || !meets) return { rows: joined(new Map(), page), earlier: page.earlier };
  return { rows: joined(known.rows, page), earlier: page.earlier === null ? null : known.earlier };
}

/** What is known with the page that was asked for as the one `before` a revision; it may have been asked for twice. */
export function withOlder(known: Known, before: number, page: Page): Known {
  return known.earlier === before ? { rows: joined(known.rows, page), earlier: page.earlier } : known;
}

/** The newest first. */
export function listed(known: Known): Change[] {
  return [...known.rows.values()].sort((one, other) => other.rev - one.rev);
}

function joined(rows: ReadonlyMap<number, Change>, page: Page): ReadonlyMap<number, Change> {
  return new Map([...rows, ...page.revisions.map((one) => [one.rev, one] as const)]);
}
