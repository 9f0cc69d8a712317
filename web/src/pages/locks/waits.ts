// The graph of waits in words, and who of it stands in a ring.

import type { components } from "../../api-types";

type Wait = components["schemas"]["Wait"];
type Waits = components["schemas"]["Waits"];

const WORDS: Record<Wait["why"], string> = { holds: "waits for", waits: "waits behind", needs: "cannot let go before" };

export function waitWords(wait: Wait): string {
  return WORDS[wait.why];
}

/** Everybody who waits in a ring. */
export function ringsOf(value: Waits | undefined): ReadonlySet<string> {
  return new Set((value?.rings ?? []).flatMap((one) => one.owners));
}
