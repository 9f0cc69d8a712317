// Reads of the server that a page repeats when what they tell of has moved, and after an outage. One is under way at a
// time; what moves meanwhile is read right after. The old answer stays on screen until the new one is here.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Refused, refusedOf } from "./api";
import { plan } from "./log/plan";
import { oneAtATime } from "./once";

const REST = 3; // After an answer it is left alone for so many times as long as the answer took.

export interface Read<T> {
  value: T | undefined;
  error: Refused | undefined;
  again: () => void;
}

/** GET `path`, again whenever `wake` is another value; an empty path reads nothing. */
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
      } catch (fault) {
        const error = refusedOf(fault);
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
