// GET requests that a page repeats when their subject changes and after an outage. One runs at a time; a change during
// a read causes one more read after it. The old answer stays on screen until the new one arrives.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Refused, refusedOf } from "./api";
import { plan } from "./log/plan";
import { oneAtATime } from "./once";

const REST = 3; // Pause after an answer, as a multiple of the time that the answer took.

export interface Read<T> {
  value: T | undefined;
  error: Refused | undefined;
  again: () => void;
}

/** Reads GET `path`, and again whenever `wake` changes. An empty path reads nothing. */
export function useRead<T>(path: string, query: Record<string, string | number> = {}, wake: unknown = null): Read<T> {
  const [found, setFound] = useState<{ of: string; value?: T; error?: Refused }>({ of: "" });
  const read = useRef<() => Promise<void>>();
  const words = path && `${path}?${new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))}`;

  useEffect(() => {
    let isWanted = words !== "";
    read.current = oneAtATime(async () => {
      if (!isWanted) return;
      const began = performance.now();
      try {
        const value = await get<T>(path, query);
        if (isWanted) setFound({ of: words, value });
      } catch (refusal) {
        const error = refusedOf(refusal);
        if (isWanted) setFound((old) => (old.of === words ? { ...old, error } : { of: words, error }));
      }
      const rest = REST * (performance.now() - began);
      if (isWanted) await new Promise((resolve) => setTimeout(resolve, rest));
    });
    return () => {
      isWanted = false;
    };
  }, [words]);

  useEffect(() => {
    void read.current?.();
  }, [words, wake, plan.returns.value]);

  const isMine = found.of === words;
  return { value: isMine ? found.value : undefined, error: isMine ? found.error : undefined, again: () => void read.current?.() };
}
