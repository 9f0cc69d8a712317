// Completion and field descriptions for the editor, from the plan's JSON Schema and the names in the plan. The schema is
// generated from the table that the compiler reads.

import type { Json, JsonObject } from "../../log/record";

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  default?: Json;
  examples?: Json[];
  enum?: Json[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  anyOf?: Schema[];
  allOf?: Schema[];
  definitions?: Record<string, Schema>;
}

export interface Option {
  label: string;
  /** Its type, shown next to the label. */
  detail: string;
  /** Its description. */
  info: string;
  /** The inserted text. */
  apply: string;
}

/** The fields whose values are names from the plan, with the kinds of those names. */
const NAMING: Record<string, readonly NameKind[]> = {
  agent: ["agents"],
  extends: ["agents", "hooks"],
  proto: ["agents"],
  from: ["tasks"],
  needs: ["tasks", "containers"],
  container: ["containers"],
  containers: ["containers"],
  hooks: ["hooks"],
  mixins: ["mixins"],
  tools: ["toolsets", "tools"],
  prompt: ["prompts"],
  locks: ["locks"],
  path: ["locks"],
  model: ["models"],
  models: ["models"],
  "talk-to": ["tasks"],
  task: ["tasks"],
};

export type NameKind = "agents" | "tasks" | "containers" | "hooks" | "mixins" | "toolsets" | "tools" | "prompts" | "locks" | "models";
export type Names = Partial<Record<NameKind, readonly string[]>>;

const ONE: Record<NameKind, string> = {
  agents: "agent",
  tasks: "task",
  containers: "container",
  hooks: "hook",
  mixins: "mixin",
  toolsets: "toolset",
  tools: "tool",
  prompts: "prompt",
  locks: "lock",
  models: "model",
};

/** Returns the names in `document`, by kind. */
export function namesIn(document: JsonObject): Names {
  const found: Record<NameKind, Set<string>> = {
    agents: keys(document.agents),
    tasks: new Set(),
    containers: keys(document.containers),
    hooks: keys(document.hooks),
    mixins: keys(document.mixins),
    toolsets: keys(document.toolsets),
    tools: new Set(),
    prompts: keys(document.prompts),
    locks: new Set(),
    models: keys(document.models),
  };
  const visit = (task: JsonObject, path: string): void => {
    for (const lock of texts(task.locks)) found.locks.add(lock);
    const agents = [task.agent, ...Object.values(map(task.agents))].map(map);
    for (const agent of agents) {
      for (const tool of texts(agent.tools)) found.tools.add(tool);
      if (typeof agent.model === "string") found.models.add(agent.model);
    }
    for (const [name, child] of Object.entries(map(task.tasks))) {
      const below = path === "" ? name : `${path}/${name}`;
      found.tasks.add(below);
      visit(map(child), below);
    }
  };
  visit(document, "");
  return Object.fromEntries(Object.entries(found).map(([kind, names]) => [kind, [...names]]));
}

/** Returns the schemas that apply at `path`: several if a value can have several shapes. */
export function schemasAt(root: Schema, path: readonly string[]): Schema[] {
  let at = shapes(root, root);
  for (const part of path) at = at.flatMap((schema) => step(root, schema, part)).flatMap((schema) => shapes(root, schema));
  return at;
}

/** Returns the description of the field at `path`; undefined for other keys, such as a task's name. */
export function described(root: Schema, path: readonly string[]): { doc: string; detail: string } | undefined {
  const name = path.at(-1);
  if (name === undefined) return undefined;
  const field = schemasAt(root, path.slice(0, -1)).find((schema) => schema.properties?.[name] !== undefined)?.properties?.[name];
  return field?.description === undefined ? undefined : { doc: field.description, detail: detailOf(root, field) };
}

/** Returns the fields that the map at `path` can have. */
export function keyOptions(root: Schema, path: readonly string[]): Option[] {
  const found = new Map<string, Option>();
  for (const schema of schemasAt(root, path)) {
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      if (!found.has(name)) found.set(name, { label: name, detail: detailOf(root, field), info: field.description ?? "", apply: `${name}: ` });
    }
  }
  return [...found.values()];
}

/** Returns the possible values at `path`: those of an enum or boolean, and names from the plan. */
export function valueOptions(root: Schema, path: readonly string[], names: Names): Option[] {
  const found = new Map<string, Option>();
  const add = (label: string, detail: string): void => {
    if (!found.has(label)) found.set(label, { label, detail, info: "", apply: label });
  };
  const field = path.filter((part) => part !== "-").at(-1) ?? "";
  const schemas = schemasAt(root, path);
  if (schemas.some((schema) => types(schema).includes("string") && schema.enum === undefined)) {
    for (const kind of NAMING[field] ?? []) for (const name of names[kind] ?? []) add(name, ONE[kind]);
  }
  for (const schema of schemas) {
    for (const value of schema.enum ?? []) add(String(value), value === schema.default ? "default" : "");
    if (types(schema).includes("boolean")) for (const value of ["true", "false"]) add(value, value === String(schema.default) ? "default" : "");
  }
  return [...found.values()];
}

function step(root: Schema, schema: Schema, part: string): Schema[] {
  if (part === "-") return schema.items === undefined ? [] : [schema.items];
  const field = schema.properties?.[part];
  if (field !== undefined) return shapes(root, field).map((shape) => (field.default === undefined ? shape : { default: field.default, ...shape }));
  return typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [];
}

/** Resolves references and alternatives of a schema; returns every shape. */
function shapes(root: Schema, schema: Schema): Schema[] {
  if (schema.$ref !== undefined) {
    const target = root.definitions?.[schema.$ref.replace("#/definitions/", "")];
    return target === undefined ? [] : shapes(root, target);
  }
  const inner = [...(schema.anyOf ?? []), ...(schema.allOf ?? [])];
  const own = schema.type !== undefined || schema.properties !== undefined || schema.enum !== undefined ? [schema] : [];
  return [...own, ...inner.flatMap((one) => shapes(root, one))];
}

function detailOf(root: Schema, field: Schema): string {
  const kinds = new Set(shapes(root, field).flatMap((shape) => (shape.enum ? ["choice"] : types(shape))));
  const type = [...kinds].map((kind) => TYPE_WORDS[kind] ?? kind).join(" or ");
  return field.default === undefined ? type : `${type}, default ${JSON.stringify(field.default)}`;
}

const TYPE_WORDS: Record<string, string> = {
  string: "text",
  object: "map",
  array: "list",
  boolean: "true or false",
  number: "number",
  integer: "number",
  choice: "enum",
};

function types(schema: Schema): string[] {
  return schema.type === undefined ? [] : Array.isArray(schema.type) ? schema.type : [schema.type];
}

function keys(value: Json | undefined): Set<string> {
  return new Set(Object.keys(map(value)));
}

function map(value: Json | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

/** Returns the texts of a list, and the paths of maps in it. */
function texts(value: Json | undefined): string[] {
  if (typeof value === "string") return [value];
  if (!Array.isArray(value)) return [];
  return value.flatMap((item) => (typeof item === "string" ? [item] : typeof map(item).path === "string" ? [String(map(item).path)] : []));
}
