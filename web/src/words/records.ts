// Short texts about the records of an object, as client/planloop/client/render/records.py writes them for the types that
// are listed here; a shared test compares both. Other types show the changed state or the data of the record.

import { entries, type Entry, type Json, type JsonObject, type LogRecord } from "../log/record";
import { duration } from "./amounts";
import { callText, list, map, oneLine, spaced, text } from "./objects";

const QUIET: readonly string[] = [
  "object.created", "object.updated", "message.read", "lock.renewed", "fork.making", "fork.merging", "fork.writing",
  "fork.cleared", "timer.set", "turn.started", "turn.ended", "call.authorized", "agent.woken", "call.started",
];

export interface Step {
  rev: number;
  at: number;
  type: string;
  subject: string;
  words: string;
}

/** Returns the newest `most` steps about one of `subjects`, oldest first, without those that repeat others. */
export function recent(records: readonly LogRecord[], subjects: ReadonlySet<string>, most: number): Step[] {
  const found: Step[] = [];
  for (let at = records.length - 1; at >= 0 && found.length < most; at -= 1) {
    const record = records[at] as LogRecord;
    for (const step of stepsOf(record).reverse()) if (subjects.has(step.subject) && !QUIET.includes(step.type)) found.push(step);
  }
  return found.slice(0, most).reverse();
}

/** Returns the steps of a record with their texts. The changed state of an object belongs to the last step about it. */
export function stepsOf(record: LogRecord): Step[] {
  const steps = entries(record);
  const last = new Map(steps.map((one, at) => [one.subject, at]));
  return steps.map((one, at) => ({ rev: record.rev, at: record.at, type: one.type, subject: one.subject, words: oneLine(words(record, one, last.get(one.subject) === at)) }));
}

/** Returns the event without its author and time. */
function words(record: LogRecord, { type, subject, data }: Entry, isLast: boolean): string {
  return typeWords(type, data) || (isLast ? stateWords(record, subject) : "") || (type === "model.replied" ? "" : dataWords(data));
}

function typeWords(type: string, data: JsonObject): string {
  switch (type) {
    case "model.replied":
      return [oneLine(text(data.text)), ...list(data.calls).map((call) => callText(map(call)))].filter(Boolean).join(" · ");
    case "call.settled":
      return settledWords(data);
    case "call.waiting": {
      const why = oneLine(text(data.why));
      return `${text(data.tool)} ${why ? `waits: ${why}` : "continues"}`;
    }
    case "check.ran":
      return `check ${text(data.check)} ${text(data.result)}: ${text(data.message)}`;
    case "message.sent":
    case "message.delivered":
      return messageWords(data);
    default:
      return "";
  }
}

/** Empty for a task's command: the state of the task has its result. */
function settledWords(data: JsonObject): string {
  const result = map(data.result);
  if (!text(data.tool) || data.result === undefined) return "";
  const state = text(result.state) === "Succeeded" ? "ok" : text(result.state).toLowerCase();
  const error = text(result.error) ? `, ${spaced(text(result.error))}` : "";
  const trace = map(data.trace);
  const took = trace.seconds === undefined ? "" : `, ${duration(Number(trace.seconds))}`;
  const tries = trace.tries === undefined ? "" : `, ${text(trace.tries)} tries`;
  const changed = Object.entries(map(data.violated)).map(([path, owner]) => `${path}, which ${text(owner)} holds`).join(", and ");
  return `${text(data.tool)} ${state}${error}${took}${tries}${data.cached ? ", cached" : ""}${changed && `; it changed ${changed}`}`;
}

function messageWords(data: JsonObject): string {
  if (data.point !== undefined) return `asks ${text(data.to)} at ${text(data.point)}`;
  const message = map(data.message ?? data);
  const body = bodyText(message.body ?? "");
  return text(message.sender) ? `from ${text(message.sender)}: ${body}` : body;
}

function bodyText(body: Json): string {
  if (typeof body === "string") return body;
  const facts = map(body);
  if (typeof facts.text === "string") return facts.text;
  if (facts.conflict === "over") return `${text(facts.key)} is resolved: ${text(facts.why)}`;
  return JSON.stringify(body);
}

function stateWords(record: LogRecord, subject: string): string {
  for (const change of record.changes) {
    if ("status" in change && change.status === subject) return [text(change.merge.state), text(change.merge.why)].filter(Boolean).join(": ");
    if ("put" in change && change.put === subject) return text(change.spec.goal) || text(change.spec.tool);
    if ("mark" in change && change.mark === subject && change.deleting) return "deleting";
  }
  return "";
}

function dataWords(data: JsonObject): string {
  return Object.entries(data)
    .filter(([, value]) => typeof value === "string" || typeof value === "number")
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");
}
