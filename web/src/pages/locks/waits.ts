// Texts about waits, and the owners that are in a deadlock.

import type { components } from "../../api-types";

type Wait = components["schemas"]["Wait"];
type Waits = components["schemas"]["Waits"];

const WAIT_WORDS: Record<Wait["why"], string> = { holds: "waits for", waits: "queues behind", needs: "depends on" };

export function waitWords(wait: Wait): string {
  return WAIT_WORDS[wait.why];
}

/** Returns the owners that wait for each other in a cycle. */
export function ownersInCycle(value: Waits | undefined): ReadonlySet<string> {
  return new Set((value?.rings ?? []).flatMap((one) => one.owners));
}
