// What an agent is and may do, in words.

import type { Json, Resource } from "../../log/record";
import { plural } from "../../words/amounts";
import { list, map, text } from "../../words/objects";

/** Whether it was made for a hook: no task can have such a name. */
export function isHookAgent(address: string): boolean {
  return address.slice(address.lastIndexOf("/") + 1).startsWith("~");
}

/** Who thinks for it. */
export function mindWords(item: Resource): string {
  const mind = map(item.spec.mind);
  switch (mind.kind) {
    case "script":
      return `a script of ${plural(list(mind.steps).length, "step")}`;
    case "program":
    case "outside":
      return list(mind.argv).map(text).join(" ");
    case "python":
      return text(mind.target);
    case "model":
      return text(mind.stated) === text(mind.model) ? text(mind.model) : `${text(mind.stated)}, which is ${text(mind.model)}`;
    default:
      return text(mind.kind);
  }
}

/** Labelled lines of what it may do; only what is bounded, forbidden or granted. */
export function rightsOf(item: Resource): [string, string][] {
  const rights = map(item.spec.rights);
  const found: [string, string][] = [["tools", list(item.spec.tools).map(text).join(", ") || "none"]];
  const patterns = (name: string, value: Json | undefined): void => {
    if (Array.isArray(value)) found.push([name, value.map(text).join(", ") || "nothing"]);
  };
  patterns("models", rights.models);
  patterns("reads", rights.read);
  patterns("writes", rights.write);
  if (list(rights.deny).length > 0) patterns("may not", rights.deny);
  const hosts = list(rights.hosts).map(text);
  found.push(["network", rights.network === true ? "all" : hosts.length > 0 ? hosts.join(", ") : "none"]);
  if (typeof rights.spawn === "number" || typeof rights.depth === "number") {
    const children = typeof rights.spawn === "number" ? plural(rights.spawn, "child", "children") : "children";
    found.push(["may have", typeof rights.depth === "number" ? `${children}, ${plural(rights.depth, "level")} deep` : children]);
  }
  const grants = [...new Set([...list(rights.grant_tools), ...list(rights.grant_models)].map(text))];
  if (grants.length > 0) found.push(["may grant", grants.join(", ")]);
  return found;
}

/** What a message says to whoever reads along. */
export function bodyWords(body: Json | undefined): string {
  if (typeof body === "string") return body;
  const facts = map(body);
  if (typeof facts.text === "string") return facts.text;
  return JSON.stringify(body);
}
