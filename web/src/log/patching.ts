// RFC 6902 operations and RFC 7386 merges over immutable values.

import type { Json, JsonObject, Op } from "./record";

/** Returns `document` after `ops`. Throws Error for a path that does not exist; records of a log contain none. */
export function applyOps(document: Json, ops: readonly Op[]): Json {
  return ops.reduce(applyOp, document);
}

function applyOp(document: Json, op: Op): Json {
  const path = parts(op.path);
  switch (op.op) {
    case "add":
      return write(document, path, op.value ?? null, true);
    case "replace":
      return write(document, path, op.value ?? null, false);
    case "remove":
      return remove(document, path);
    case "move": {
      const from = parts(op.from ?? "");
      return write(remove(document, from), path, read(document, from), true);
    }
    case "copy":
      return write(document, path, read(document, parts(op.from ?? "")), true);
    case "test":
      return document;
  }
}

/** Returns `target` merged with `patch`: null removes a member, maps are merged, other values replace. */
export function merge(target: Json, patch: Json): Json {
  if (!isMap(patch)) return patch;
  const old: JsonObject = isMap(target) ? target : {};
  const set: [string, Json][] = [];
  const removed: string[] = [];
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) removed.push(name);
    else set.push([name, merge(Object.hasOwn(old, name) ? (old[name] ?? null) : null, value)]);
  }
  // Not by assignment: a member may be called `__proto__`.
  const merged: JsonObject = { ...old, ...Object.fromEntries(set) };
  for (const name of removed) delete merged[name];
  return merged;
}

/** Returns the parts of a JSON pointer. */
export function parts(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Returns the value at `path`; undefined if it does not exist. */
export function lookUp(document: Json, path: readonly string[]): Json | undefined {
  let value: Json | undefined = document;
  for (const part of path) {
    if (Array.isArray(value)) value = value[Number(part)];
    else if (isMap(value)) value = Object.hasOwn(value, part) ? value[part] : undefined;
    else return undefined;
  }
  return value;
}

function read(document: Json, path: readonly string[]): Json {
  const value = lookUp(document, path);
  if (value === undefined) throw new Error(`no value at /${path.join("/")}`);
  return value;
}

function write(document: Json, path: readonly string[], value: Json, isNew: boolean): Json {
  const [head, ...rest] = path;
  if (head === undefined) return value;
  if (Array.isArray(document)) {
    const at = head === "-" ? document.length : Number(head);
    const copy = [...document];
    if (rest.length === 0 && isNew) copy.splice(at, 0, value);
    else copy[at] = write(copy[at] ?? null, rest, value, isNew);
    return copy;
  }
  if (!isMap(document)) throw new Error(`no value at /${path.join("/")}`);
  return { ...document, [head]: write(document[head] ?? null, rest, value, isNew) };
}

function remove(document: Json, path: readonly string[]): Json {
  const [head, ...rest] = path;
  if (head === undefined) return null;
  if (Array.isArray(document)) {
    const at = Number(head);
    if (rest.length === 0) return document.filter((_, index) => index !== at);
    return document.map((item, index) => (index === at ? remove(item, rest) : item));
  }
  if (!isMap(document)) throw new Error(`no value at /${path.join("/")}`);
  if (rest.length > 0) return { ...document, [head]: remove(document[head] ?? null, rest) };
  const { [head]: _removed, ...left } = document;
  return left;
}

function isMap(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
