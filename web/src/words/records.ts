// What a record of the log says about one object, in a few words: client/planloop/client/render/records.py has them all.

import { entries, type Entry, type LogRecord } from "../log/record";
import { callText, list, map, oneLine, text } from "./objects";

const QUIET: readonly string[] = [
  "object.created", "object.updated", "message.read", "lock.renewed", "fork.making", "fork.merging", "fork.writing",
  "fork.cleared", "timer.set", "turn.started", "turn.ended", "call.authorized", "agent.woken", "call.started",
];

export interface Said {
  rev: number;
  at: number;
  type: string;
  subject: string;
  words: string;
}

/** The newest `most` steps about one of `subjects` that say something to a person, oldest first. */
export function recent(records: readonly LogRecord[], subjects: ReadonlySet<string>, most: number): Said[] {
  const found: Said[] = [];
  for (let at = records.length - 1; at >= 0 && found.length < most; at -= 1) {
    const record = records[at] as LogRecord;
    for (const entry of entries(record).reverse()) {
      if (!subjects.has(entry.subject) || QUIET.includes(entry.type)) continue;
      found.push({ rev: record.rev, at: record.at, type: entry.type, subject: entry.subject, words: words(record, entry) });
    }
  }
  return found.slice(0, most).reverse();
}

/** What happened, without who and when. */
function words(record: LogRecord, { type, subject, data }: Entry): string {
  switch (type) {
    case "model.replied":
      return [oneLine(text(data.text)), ...list(data.calls).map((call) => callText(map(call)))].filter(Boolean).join(" · ");
    case "call.settled":
      // Of a task's command its state says how it ended.
      if (!text(data.tool)) return oneLine(stateWords(record, subject));
      return `${text(data.tool)} ${text(map(data.result).state) === "Succeeded" ? "ok" : text(map(data.result).state).toLowerCase()}`;
    case "call.waiting":
      return `${text(data.tool)} ${data.why ? `waits: ${oneLine(text(data.why))}` : "goes on"}`;
    case "check.ran":
      return `check ${text(data.check)} ${text(data.result)}: ${oneLine(text(data.message))}`;
    case "message.sent":
    case "message.delivered": {
      const letter = map(data.message ?? data);
      const body = text(letter.body) || text(map(letter.body).text);
      return oneLine([text(letter.sender) && `from ${text(letter.sender)}`, body].filter(Boolean).join(": "));
    }
    default:
      return oneLine(stateWords(record, subject) || dataWords(data));
  }
}

function stateWords(record: LogRecord, subject: string): string {
  for (const change of record.changes) {
    if ("status" in change && change.status === subject) {
      const said = [text(change.merge.state), text(change.merge.why)].filter(Boolean).join(": ");
      if (said) return said;
    }
    if ("put" in change && change.put === subject) return text(change.spec.goal) || text(change.spec.tool);
    if ("mark" in change && change.mark === subject && change.deleting) return "on its way out";
  }
  return "";
}

function dataWords(data: Entry["data"]): string {
  return Object.entries(data)
    .filter(([, value]) => typeof value === "string" || typeof value === "number")
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");
}
