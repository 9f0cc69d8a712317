// One object in words: its state, how far it is, why it is not further and what would change that. The words of
// `planloop.client.render`, held to them by a shared test.

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

const UNWRITTEN: Record<string, string> = { task: "waiting", agent: "idle", hook: "active", container: "waiting" };
const POSITIVE: readonly string[] = ["Ready", "Accepted", "Progressing", "Done", "Available"];

export function kindOf(item: Resource): string {
  return item.address.slice(0, item.address.indexOf("/"));
}

/** The address without its kind. */
export function pathOf(address: string): string {
  return address.slice(address.indexOf("/") + 1);
}

/** The last name of an address; of the root task a dot. */
export function nameOf(address: string): string {
  return address.slice(address.lastIndexOf("/") + 1);
}

/** The state in one word. */
export function stateOf(item: Resource): string {
  if (item.deleting) return "deleting";
  return text(item.status.state) || (UNWRITTEN[kindOf(item)] ?? "new");
}

/** `3 of 5` passing checks, empty when the task has none. */
export function checksOf(item: Resource): string {
  const wanted = list(item.spec.acceptance);
  if (wanted.length === 0) return "";
  const results = map(item.status.checks);
  const passing = wanted.filter((check) => map(results[text(map(check).key)]).result === "pass");
  return `${passing.length} of ${wanted.length}`;
}

/** The one sentence about it: why it is not further, else its result, else its goal. */
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

/** A result as its author would say it. */
export function valueText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "object" && !Array.isArray(value)) {
    for (const name of ["text", "message"]) if (typeof value[name] === "string") return (value[name] as string).trim();
    return Object.entries(value)
      .map(([name, one]) => `${name} ${typeof one === "string" ? one : JSON.stringify(one)}`)
      .join(", ");
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Its conditions by type. */
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

/** Whether it stands in the way: a good thing that is False, or a bad one that is True. */
export function isBad(condition: Condition): boolean {
  return condition.status === (POSITIVE.includes(condition.type) ? "False" : "True");
}

function worst(item: Resource): Condition | undefined {
  let found: Condition | undefined;
  for (const one of conditionsOf(item)) if (isBad(one) && (found === undefined || one.since > found.since)) found = one;
  return found;
}

/** What would get it further: events and commands, each once. */
export function unblocksOf(item: Resource): string[] {
  return [...new Set(conditionsOf(item).filter(isBad).flatMap((one) => one.unblocks))];
}

const HELD = /lock (\S.*?) is held by (\S+) \(\w+\) since [\d:]+ UTC(?:, ".*?"(?=$|; | · | and \d))?/g;

/**
 * A reason with the holders that the locks have now: who waits is woken by its own grant and by nothing else, so what
 * its status says may be of some time ago.
 */
export function byNow(why: string, lock: (path: string) => Resource | undefined): string {
  return why.replace(HELD, (whole, path: string, owner: string) => {
    const holders = map(lock(path)?.status.holders);
    if (owner in holders) return whole;
    const [first] = Object.values(holders)
      .map(map)
      .sort((a, b) => Number(a.since) - Number(b.since) || (text(a.owner) < text(b.owner) ? -1 : 1));
    if (first === undefined) return `lock ${path} is not held any more, and not granted yet`;
    const since = new Date(Number(first.since) * 1000).toISOString().slice(11, 19);
    const reason = text(first.reason);
    return `lock ${path} is held by ${text(first.owner)} (${text(first.mode)}) since ${since} UTC${reason ? `, "${reason}"` : ""}`;
  });
}

/** `shell('git push origin fix')`. */
export function callText(spec: JsonObject): string {
  const values = Object.values(map(spec.arguments)).filter((one) => one !== null && !isMap(one));
  return `${text(spec.tool)}(${values.slice(0, 3).map(argument).join(", ")})`;
}

function argument(value: Json): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return cut(typeof value === "string" ? `'${value.replaceAll("\n", "\\n")}'` : JSON.stringify(value), 60);
}

/** The first line, with a mark when there are more. */
export function oneLine(words: string): string {
  const [first = "", ...rest] = words.trim().split("\n");
  return rest.join("").trim() ? `${first} …` : first;
}

export function cut(words: string, width: number): string {
  return words.length > width ? `${words.slice(0, width - 1)}…` : words;
}

/** A text of an object; empty for whatever else is there. */
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
