// The items of an agent's conversation, as the server sends them. Pure.

import type { components } from "../api-types";

type Whole = components["schemas"]["Item"];
type WholeTold = components["schemas"]["Told"];
// The server leaves out fields with their default value.
export type Item = Pick<Whole, "rev" | "at" | "kind"> & Partial<Omit<Whole, "told">> & { told?: Told[] };
export type Told = Pick<WholeTold, "sender" | "form" | "id" | "text"> & Partial<WholeTold>;

/** Returns the label of an item of kind `life`. */
export function lifeLabel(word: string): string {
  return word === "slept" ? "sleeping" : word;
}

/** Returns a key for each item: its revision and its position in it. A key does not depend on where the list starts. */
export function keysOf(items: readonly Item[]): string[] {
  let rev = -1;
  let place = 0;
  return items.map((item) => {
    place = item.rev === rev ? place + 1 : 0;
    rev = item.rev;
    return `${rev}.${place}`;
  });
}

/** Returns the newest `most` items, plus the rest of the oldest revision among them, so that keys do not shift. */
export function newest(items: readonly Item[], most: number): readonly Item[] {
  let from = Math.max(0, items.length - most);
  while (from > 0 && items[from - 1]?.rev === items[from]?.rev) from -= 1;
  return from === 0 ? items : items.slice(from);
}
