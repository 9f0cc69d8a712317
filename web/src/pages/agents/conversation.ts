// The loaded part of an agent's conversation: turns from the server, newest first. Whenever a record names the agent,
// the items after the loaded part are read; nothing is read again.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Refused, refusedOf } from "../../api";
import { plan } from "../../log/plan";
import { oneAtATime } from "../../once";
import { withRecords, type Seen } from "./seen";
import type { Item } from "./turns";

const TURNS = 30;

interface Page {
  rev: number;
  items: Item[];
  earlier: number | null;
}

export interface Conversation {
  items: readonly Item[];
  /** Whether older turns are not loaded yet. */
  hasEarlier: boolean;
  isLoading: boolean;
  error: Refused | undefined;
  earlier: () => Promise<void>;
}

/** The loaded items of one agent's conversation, up to the revision `upTo`. */
interface Known {
  items: readonly Item[];
  upTo: number;
  earlier: number | null;
}

export function useConversation(agent: string): Conversation {
  const path = agent.slice(agent.indexOf("/") + 1);
  const past = plan.past.value;
  const log = plan.log.value;
  const [known, setKnown] = useState<Known | undefined>();
  const [error, setError] = useState<Refused | undefined>();
  const [isLoading, setLoading] = useState(true);
  const at = useRef<Known | undefined>();
  const wanted = useRef(0);
  const readNewer = useRef<() => Promise<void>>();
  at.current = known;

  const read = async (query: Record<string, number>): Promise<Page | undefined> => {
    try {
      const page = await get<Page>(`conversation/${path === "." ? "~" : path}`, query);
      setError(undefined);
      return page;
    } catch (refused) {
      setError(refusedOf(refused));
      return undefined;
    }
  };

  useEffect(() => {
    let isGone = false;
    at.current = undefined; // The loaded items belong to another agent, revision or log.
    setKnown(undefined);
    setLoading(true);
    // Records arrive faster than pages: one more read follows for those that arrive during a read.
    readNewer.current = oneAtATime(async () => {
      const now = at.current;
      if (isGone || (now !== undefined && (past !== null || now.upTo >= wanted.current))) return;
      const page = await read(now ? { after: now.upTo } : { turns: TURNS, ...(past === null ? {} : { before: past + 1 }) });
      if (isGone) return;
      if (now === undefined) setLoading(false);
      if (page === undefined) return;
      const then = at.current ?? { items: [], upTo: 0, earlier: page.earlier };
      at.current = { ...then, items: [...then.items, ...page.items], upTo: Math.max(then.upTo, page.rev) };
      setKnown(at.current);
    });
    return () => {
      isGone = true;
    };
  }, [agent, past, log]);

  const seen = useRef<Seen>({ agent, log, upTo: 0, newest: 0 });
  if (seen.current.agent !== agent || seen.current.log !== log) seen.current = { agent, log, upTo: 0, newest: 0 };
  seen.current = withRecords(plan.recent.value, seen.current);
  wanted.current = seen.current.newest;
  useEffect(() => {
    void readNewer.current?.();
  }, [agent, log, seen.current.newest, known?.upTo, past, plan.returns.value]);

  const earlier = async (): Promise<void> => {
    const now = at.current;
    if (now?.earlier == null || isLoading) return;
    setLoading(true);
    const page = await read({ before: now.earlier, turns: TURNS });
    setLoading(false);
    const then = at.current;
    if (page !== undefined && then !== undefined && then.earlier === now.earlier) {
      setKnown({ ...then, items: [...page.items, ...then.items], earlier: page.earlier });
    }
  };

  return { items: known?.items ?? [], hasEarlier: known?.earlier != null, isLoading, error, earlier };
}
