// Types of the API: log records and the objects that they change, as `plan events -o json` prints them.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export interface Resource {
  address: string;
  uid: string;
  generation: number;
  spec: JsonObject;
  status: JsonObject;
  refs?: string[];
  owner?: string;
  finalizers?: string[];
  deleting?: boolean;
  created_rev: number;
  rev: number;
}

export interface Op {
  op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  path: string;
  from?: string;
  value?: Json;
}

export type Change =
  | { put: string; uid: string; spec: JsonObject; refs?: string[]; owner?: string; finalizers?: string[]; with?: JsonObject }
  | { patch: string; ops: Op[] }
  | { status: string; uid: string; merge: JsonObject }
  | { mark: string; uid: string; deleting?: boolean; finalizers?: string[] }
  | { move: string; uid: string; to: string }
  | { drop: string; uid: string };

export interface Entry {
  type: string;
  subject: string;
  data: JsonObject;
}

export interface LogRecord extends Entry {
  v: number;
  rev: number;
  at: number;
  actor: string;
  epoch: number;
  changes: Change[];
  cause?: number;
  blobs?: string[];
  also?: Entry[];
}

/** Returns all steps of a record, in order. */
export function entries(record: LogRecord): Entry[] {
  return [record, ...(record.also ?? [])];
}
