// Applies log records to objects, with the rules of schemas/planloop/schemas/log/record.py; a shared test compares both.
//
// Objects are immutable: a change makes a new one, so a reference to an old object keeps its content.

import { applyOps, merge } from "./patching";
import type { Change, JsonObject, LogRecord, Resource } from "./record";

/** Applies `record` to `objects`; returns the addresses that changed. Ignores changes to a uid that no longer exists. */
export function fold(objects: Map<string, Resource>, record: LogRecord): Set<string> {
  const touched = new Set<string>();
  for (const change of record.changes) {
    for (const address of apply(objects, change, record.rev)) touched.add(address);
  }
  return touched;
}

function apply(objects: Map<string, Resource>, change: Change, rev: number): string[] {
  if ("put" in change) {
    objects.set(change.put, put(objects.get(change.put), change, rev));
    return [change.put];
  }
  if ("patch" in change) {
    const plan = objects.get(change.patch);
    if (plan === undefined) return [];
    const spec = applyOps(plan.spec, change.ops) as JsonObject;
    objects.set(change.patch, { ...plan, spec, generation: plan.generation + 1, rev });
    return [change.patch];
  }
  const old = found(objects, addressOf(change), change.uid);
  if (old === undefined) return [];
  if ("status" in change) {
    objects.set(old.address, { ...old, status: merge(old.status, change.merge) as JsonObject, rev });
  } else if ("mark" in change) {
    const marked = { ...old, rev };
    if (change.deleting !== undefined) marked.deleting = change.deleting;
    if (change.finalizers !== undefined) marked.finalizers = change.finalizers;
    objects.set(old.address, marked);
  } else if ("drop" in change) {
    objects.delete(old.address);
  } else {
    if (objects.has(change.to)) return [];
    objects.delete(old.address);
    objects.set(change.to, { ...old, address: change.to, rev });
    return [old.address, change.to];
  }
  return [old.address];
}

function addressOf(change: Exclude<Change, { put: string } | { patch: string }>): string {
  if ("status" in change) return change.status;
  if ("mark" in change) return change.mark;
  return "drop" in change ? change.drop : change.move;
}

/** Returns the object with that uid, at `address` or where it was moved to. */
function found(objects: Map<string, Resource>, address: string, uid: string): Resource | undefined {
  const old = objects.get(address);
  if (old?.uid === uid) return old;
  for (const one of objects.values()) if (one.uid === uid) return one;
  return undefined;
}

function put(old: Resource | undefined, change: Extract<Change, { put: string }>, rev: number): Resource {
  const same = old !== undefined && old.uid === change.uid ? old : undefined;
  const made: Resource = {
    address: change.put,
    uid: change.uid,
    generation: (same?.generation ?? 0) + 1,
    spec: change.spec,
    status: change.with === undefined ? (same?.status ?? {}) : (merge(same?.status ?? {}, change.with) as JsonObject),
    created_rev: same?.created_rev ?? rev,
    rev,
  };
  if (change.refs !== undefined) made.refs = change.refs;
  if (change.owner !== undefined) made.owner = change.owner;
  if (change.finalizers !== undefined) made.finalizers = change.finalizers;
  if (same?.deleting) made.deleting = true;
  return made;
}
