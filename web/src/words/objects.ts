// Texts about one object: its state, progress, reason and what would unblock it. The same texts as
// `planloop.client.render`; a shared test compares both.

import type { Json, JsonObject, Resource } from "../log/record";

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  /** Seconds since 1970. */
  since: number;
  unblocks: string[];
}

const INITIAL: Record<string, string> = { task: "waiting", agent: "idle", hook: "active", container: "waiting" };
const POSITIVE: readonly string[] = ["Ready", "Accepted", "Progressing", "Done", "Available"];

export function kindOf(item: Resource): string {
  return item.address.slice(0, item.address.indexOf("/"));
}

/** Returns the address without its kind. */
export function pathOf(address: string): string {
  return address.slice(address.indexOf("/") + 1);
}

/** Returns the last name of an address; a dot for the root task. */
export function nameOf(address: string): string {
  return address.slice(address.lastIndexOf("/") + 1);
}

/** Returns the state in one word. */
export function stateOf(item: Resource): string {
  if (item.deleting) return "deleting";
  return text(item.status.state) || (INITIAL[kindOf(item)] ?? "new");
}

/** Returns the passing checks as `3 of 5`; empty if the task has no checks. */
export function checksOf(item: Resource): string {
  const wanted = list(item.spec.acceptance);
  if (wanted.length === 0) return "";
  const results = map(item.status.checks);
  const passing = wanted.filter((check) => map(results[text(map(check).key)]).result === "pass");
  return `${passing.length} of ${wanted.length}`;
}

/** Returns one sentence about the object: the reason for its state, else its result, else its goal. */
export function whatOf(item: Resource): string {
  const { spec, status } = item;
  const needs = list(spec.needs);
  if (Object.keys(status).length === 0 && needs.length > 0) return `after ${needs.map((need) => pathOf(text(need))).join(", ")}`;
  const why = text(status.why) || text(status.message);
  if (why) return oneLine(why);
  const bad = worst(item);
  if (bad !== undefined) return oneLine(bad.message);
  return oneLine(valueText(status.result) || text(spec.goal) || text(spec.why));
}

/** Returns a result as text. */
export function valueText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "object" && !Array.isArray(value)) {
    for (const name of ["text", "message"]) if (typeof value[name] === "string") return (value[name] as string).trim();
    return Object.entries(value)
      .map(([name, field]) => `${name} ${typeof field === "string" ? field : JSON.stringify(field)}`)
      .join(", ");
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Returns the object's conditions. */
export function conditionsOf(item: Resource): Condition[] {
  return Object.entries(map(item.status.conditions)).map(([type, raw]) => {
    const one = map(raw);
    return {
      type,
      status: text(one.status) as Condition["status"],
      reason: text(one.reason),
      message: text(one.message),
      since: Number(one.since ?? 0),
      unblocks: list(one.unblocks).map(text),
    };
  });
}

/** Whether the condition reports a problem: a positive one such as `Ready` is False, or another one is True. */
export function isBad(condition: Condition): boolean {
  return condition.status === (POSITIVE.includes(condition.type) ? "False" : "True");
}

function worst(item: Resource): Condition | undefined {
  let found: Condition | undefined;
  for (const one of conditionsOf(item)) if (isBad(one) && (found === undefined || one.since > found.since)) found = one;
  return found;
}

/** Returns what would unblock the object: events and commands, each once. */
export function unblocksOf(item: Resource): string[] {
  return [...new Set(conditionsOf(item).filter(isBad).flatMap((one) => one.unblocks))];
}

const HELD = /lock (\S.*?) is held by (\S+) \(\w+\) since [\d:]+ UTC(?:, ".*?"(?=$|; | · | and \d))?/g;

/**
 * Returns a reason with the current lock holders. A waiting task is updated only when it gets its own lock, so the
 * holder in its status may be outdated.
 */
export function withCurrentHolders(why: string, lock: (path: string) => Resource | undefined): string {
  return why.replace(HELD, (whole, path: string, owner: string) => {
    const holders = map(lock(path)?.status.holders);
    if (owner in holders) return whole;
    const [first] = Object.values(holders)
      .map(map)
      .sort((a, b) => Number(a.since) - Number(b.since) || (text(a.owner) < text(b.owner) ? -1 : 1));
    if (first === undefined) return `lock ${path} is free, and not granted yet`;
    const since = new Date(Number(first.since) * 1000).toISOString().slice(11, 19);
    const reason = text(first.reason);
    return `lock ${path} is held by ${text(first.owner)} (${text(first.mode)}) since ${since} UTC${reason ? `, "${reason}"` : ""}`;
  });
}

/** Returns a call as `shell('git push origin fix')`. */
export function callText(spec: JsonObject): string {
  const values = Object.values(map(spec.arguments)).filter((one) => one !== null && !isMap(one));
  return `${text(spec.tool)}(${values.slice(0, 3).map(argument).join(", ")})`;
}

function argument(value: Json): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return cut(typeof value === "string" ? `'${value.replaceAll("\n", "\\n")}'` : JSON.stringify(value), 60);
}

/** Returns `CommandFailed` as `command failed`. */
export function spaced(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).trim();
}

/** Returns the first line, with an ellipsis if there are more. */
export function oneLine(words: string): string {
  const [first = "", ...rest] = words.trim().split("\n");
  return rest.join("").trim() ? `${first} …` : first;
}

export function cut(words: string, width: number): string {
  return words.length > width ? `${words.slice(0, width - 1)}…` : words;
}

/** Returns a text or number of an object as text; empty for other values. */
export function text(value: Json | undefined): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

export function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

export function map(value: Json | undefined): JsonObject {
  return isMap(value) ? value : {};
}

function isMap(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
