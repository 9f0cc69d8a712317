// Things in an agent's life, as the server tells them. Pure.

import type { components } from "../api-types";

type Whole = components["schemas"]["Item"];
type WholeTold = components["schemas"]["Told"];
// What is as usual is left out on the wire.
export type Item = Pick<Whole, "rev" | "at" | "kind"> & Partial<Omit<Whole, "told">> & { told?: Told[] };
export type Told = Pick<WholeTold, "sender" | "form" | "id" | "text"> & Partial<WholeTold>;

/** A key for each item: its revision, and its place within that, which is the same wherever a list of items begins. */
export function keysOf(items: readonly Item[]): string[] {
  let rev = -1;
  let place = 0;
  return items.map((item) => {
    place = item.rev === rev ? place + 1 : 0;
    rev = item.rev;
    return `${rev}.${place}`;
  });
}

/** The newest items, `most` and what else is of the oldest revision among them: cut through it, its keys would shift. */
export function newest(items: readonly Item[], most: number): readonly Item[] {
  let from = Math.max(0, items.length - most);
  while (from > 0 && items[from - 1]?.rev === items[from]?.rev) from -= 1;
  return from === 0 ? items : items.slice(from);
}
