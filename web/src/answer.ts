// A GET whose answer does not depend on the log: read when `path` changes, and on request.

import type { Refused } from "./api";
import { useRead } from "./reading";

export interface Answer<T> {
  /** The newest answer to this path; kept while the next read runs. */
  value: T | null;
  error: Refused | null;
  /** Reads again, after the current read if one is running. */
  again: () => void;
}

/** Returns the answer to GET `path`; null reads nothing. */
export function useAnswer<T>(path: string | null, query: Record<string, string | number> = {}): Answer<T> {
  const { value, error, again } = useRead<T>(path ?? "", query);
  return { value: value ?? null, error: error ?? null, again };
}
