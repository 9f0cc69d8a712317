// The loaded list of revisions: the newest page is read again when the plan changes, older pages on demand.

import { useEffect, useState } from "preact/hooks";
import { get, type Refused, refusedOf } from "../../api";
import { plan } from "../../log/plan";
import { useRead } from "../../reading";
import { session } from "../../session";
import { type Change, type Known, listed, type Page, withNewest, withOlder } from "./revisions";

export interface Revisions {
  /** The newest first; undefined until they are read. */
  shown: Change[] | undefined;
  authors: readonly string[];
  error: Refused | undefined;
  /** Reads the next older page; undefined after the oldest page. */
  more: (() => Promise<void>) | undefined;
}

/** Returns the revisions that match `query`. */
export function useRevisions(query: Record<string, string>): Revisions {
  const of = `${plan.log} ${JSON.stringify(query)}`; // Another log has other revisions with the same numbers.
  const moved = `${plan.log} ${plan.object(`plan/${session.value.plan}`).value?.rev} ${answered()}`;
  const newest = useRead<Page>("history", query, moved);
  const [found, setFound] = useState<{ of: string; known?: Known; error?: Refused }>({ of });
  const mine = found.of === of ? found : { of };
  useEffect(() => {
    const page = newest.value;
    if (page !== undefined) setFound((now) => ({ ...(now.of === of ? now : { of }), known: withNewest(now.of === of ? now.known : undefined, page) }));
  }, [newest.value]);

  const before = mine.known?.earlier ?? null;
  const more = async (earlier: number): Promise<void> => {
    try {
      const page = await get<Page>("history", { ...query, before: earlier });
      setFound((now) => (now.of === of && now.known !== undefined ? { of, known: withOlder(now.known, earlier, page) } : now));
    } catch (refusal) {
      const error = refusedOf(refusal);
      setFound((now) => (now.of === of ? { ...now, error } : now));
    }
  };
  return {
    shown: mine.known && listed(mine.known),
    authors: newest.value?.authors ?? [],
    error: newest.error ?? mine.error,
    more: before === null ? undefined : () => more(before),
  };
}

/** Returns a text that changes with each approval and answer, which create revisions. */
function answered(): string {
  return [...plan.kind("approval").value.values()].map((one) => `${one.address}${one.rev}`).join(" ");
}
