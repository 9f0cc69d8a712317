// Which of the records that came by concern an agent. Pure.

import { entries, type LogRecord } from "../../log/record";

/** How far the records were looked through for one agent. */
export interface Seen {
  agent: string;
  /** Which log the revisions are of. */
  log: string;
  upTo: number;
  /** The newest revision that concerns the agent, or that may: 0 for none. */
  newest: number;
}

/** `seen` with what is new among the `recent` records. Those that came by too fast to be kept may have named the agent. */
export function lookedThrough(recent: readonly LogRecord[], seen: Seen): Seen {
  const last = recent.at(-1)?.rev ?? 0;
  if (last <= seen.upTo) return seen;
  let at = recent.length;
  while (at > 0 && (recent[at - 1] as LogRecord).rev > seen.upTo) at -= 1;
  const fresh = recent.slice(at);
  const isGap = seen.upTo > 0 && (fresh[0] as LogRecord).rev > seen.upTo + 1;
  const about = fresh.filter((record) => concerns(record, seen.agent)).at(-1);
  const newest = isGap ? last : (about?.rev ?? seen.newest);
  return { ...seen, upTo: last, newest };
}

function concerns(record: LogRecord, agent: string): boolean {
  const signed = `agent:${agent.slice(agent.indexOf("/") + 1)}`;
  return record.actor === signed || entries(record).some((one) => one.subject === agent) || record.changes.some((one) => "status" in one && one.status === agent);
}
