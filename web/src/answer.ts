// What the server says to a read that nothing of the log tells of: asked for when `path` is another, and on wish.

import type { Refused } from "./api";
import { useRead } from "./reading";

export interface Answer<T> {
  /** The newest answer to this path; it stays while it is asked for again. */
  value: T | null;
  error: Refused | null;
  /** Asks again; while an answer is under way that is once, after it. */
  again: () => void;
}

/** The answer to GET `path`. */
export function useAnswer<T>(path: string | null, query: Record<string, string | number> = {}): Answer<T> {
  const { value, error, again } = useRead<T>(path ?? "", query);
  return { value: value ?? null, error: error ?? null, again };
}
