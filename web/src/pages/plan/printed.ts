// What is known of what the command of a task prints. Pure.

import type { components } from "../../api-types";
import { followed, type Output } from "../../parts/output";

export type Page = Omit<components["schemas"]["Printed"], "is_over">;

/** `next` is the byte behind it. */
export interface Shown extends Output {
  next: number;
}

export const NOTHING: Shown = { log: "", start: 0, next: 0, text: "" };

/** What one has with what was read behind it; the page alone when it is of another run, or is not what follows. */
export function added(before: Shown, { log, start, next, text }: Page): Shown {
  if (log !== before.log || start !== before.next) return { log, start, next, text };
  return { ...followed(before, text), next };
}
