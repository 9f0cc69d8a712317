// The loaded output of a task's command. Pure.

import type { components } from "../../api-types";
import { followed, type Output } from "../../parts/output";

export type Page = Omit<components["schemas"]["Printed"], "is_over">;

/** `next` is the offset after its last byte. */
export interface Shown extends Output {
  next: number;
}

export const NOTHING: Shown = { log: "", start: 0, next: 0, text: "" };

/** Returns the output with `page` appended; only the page if it belongs to another run or does not follow. */
export function added(before: Shown, { log, start, next, text }: Page): Shown {
  if (log !== before.log || start !== before.next) return { log, start, next, text };
  return { ...followed(before, text), next };
}
