// Finds the newest record that concerns an agent. Pure.

import { entries, type LogRecord } from "../../log/record";

/** The records that were searched for one agent: up to the revision `upTo`. */
export interface Seen {
  agent: string;
  /** The id of the log that the revisions belong to. */
  log: string;
  upTo: number;
  /** The newest revision that concerns the agent, or may concern it; 0 if there is none. */
  newest: number;
}

/** Returns `seen` after a search of the `recent` records. Records that were dropped unread may concern the agent. */
export function withRecords(recent: readonly LogRecord[], seen: Seen): Seen {
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
