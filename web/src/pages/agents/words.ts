// Texts about an agent: its decider and its rights.

import type { Json, Resource } from "../../log/record";
import { plural } from "../../words/amounts";
import { list, map, text } from "../../words/objects";

export const ROOT_AGENT = "root agent";

/** Whether the agent belongs to a hook. Names of tasks never start with `~`. */
export function isHookAgent(address: string): boolean {
  return address.slice(address.lastIndexOf("/") + 1).startsWith("~");
}

/** Returns the agent's decider: the model, script length, program or Python function. */
export function deciderLabel(item: Resource): string {
  const decider = map(item.spec.mind);
  switch (decider.kind) {
    case "script":
      return `script, ${plural(list(decider.steps).length, "step")}`;
    case "program":
    case "outside":
      return list(decider.argv).map(text).join(" ");
    case "python":
      return text(decider.target);
    case "model":
      return text(decider.stated) === text(decider.model) ? text(decider.model) : `${text(decider.stated)} (${text(decider.model)})`;
    default:
      return text(decider.kind);
  }
}

/** Returns the agent's rights as labels with values: only those that are limited, denied or granted. */
export function rightsOf(item: Resource): [string, string][] {
  const rights = map(item.spec.rights);
  const found: [string, string][] = [["tools", list(item.spec.tools).map(text).join(", ") || "none"]];
  const patterns = (name: string, value: Json | undefined): void => {
    if (Array.isArray(value)) found.push([name, value.map(text).join(", ") || "nothing"]);
  };
  patterns("models", rights.models);
  patterns("reads", rights.read);
  patterns("writes", rights.write);
  if (list(rights.deny).length > 0) patterns("denied", rights.deny);
  const hosts = list(rights.hosts).map(text);
  found.push(["network", rights.network === true ? "all" : hosts.length > 0 ? hosts.join(", ") : "none"]);
  if (typeof rights.spawn === "number" || typeof rights.depth === "number") {
    const children = typeof rights.spawn === "number" ? plural(rights.spawn, "child", "children") : "children";
    found.push(["child agents", typeof rights.depth === "number" ? `${children}, ${plural(rights.depth, "level")} deep` : children]);
  }
  const grants = [...new Set([...list(rights.grant_tools), ...list(rights.grant_models)].map(text))];
  if (grants.length > 0) found.push(["may grant", grants.join(", ")]);
  return found;
}

/** Returns the text of a message; JSON for structured facts. */
export function bodyWords(body: Json | undefined): string {
  if (typeof body === "string") return body;
  const facts = map(body);
  if (typeof facts.text === "string") return facts.text;
  return JSON.stringify(body);
}
