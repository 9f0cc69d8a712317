// What is known of what a container writes. Pure.

import type { components } from "../../api-types";
import { followed, type Output } from "../../parts/output";

// What is as usual is left out on the wire.
export type Frame = Pick<components["schemas"]["LogFrame"], "text"> & Partial<components["schemas"]["LogFrame"]>;

/** `isCut`: something was before it that cannot be asked for here. */
export interface Logged extends Output {
  isCut: boolean;
}

export const NOTHING: Logged = { log: "", start: 0, text: "", isCut: false };

/** What one has after the frame; with one that begins another output, that alone. */
export function logged(before: Logged, { log, start = 0, left = 0, text }: Frame): Logged {
  if (log != null) return { log, start, text, isCut: left > 0 };
  const next = followed(before, text);
  const isShorter = next.text.length < before.text.length + text.length;
  return { ...next, isCut: before.isCut || (next.log === "" && isShorter) };
}
