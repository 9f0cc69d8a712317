// The loaded output of a container. Pure.

import type { components } from "../../api-types";
import { followed, type Output } from "../../parts/output";

// The server leaves out fields with their default value.
export type Frame = Pick<components["schemas"]["LogFrame"], "text"> & Partial<components["schemas"]["LogFrame"]>;

/** `isCut`: the server does not have the output before it any more. */
export interface Logged extends Output {
  isCut: boolean;
}

export const NOTHING: Logged = { log: "", start: 0, text: "", isCut: false };

/** Returns the output after the frame; only the frame if it starts another output. */
export function withFrame(before: Logged, { log, start = 0, left = 0, text }: Frame): Logged {
  if (log != null) return { log, start, text, isCut: left > 0 };
  const next = followed(before, text);
  const isShorter = next.text.length < before.text.length + text.length;
  return { ...next, isCut: before.isCut || (next.log === "" && isShorter) };
}
