import { expect, it } from "vitest";
import type { JsonObject, Resource } from "../src/log/record";
import { actsOf } from "../src/parts/steers";

function task(state: string, spec: JsonObject = {}): Resource {
  return { address: "task/a", uid: "u", generation: 1, spec, status: { state }, created_rev: 1, rev: 1 };
}

it.each([
  [task("running"), ["pause", "cancel"]],
  [task("paused"), ["resume", "cancel"]],
  [task("running", { pause: true }), ["resume", "cancel"]],
  [task("stopping", { cancel: true }), ["resume"]],
  [task("cancelled", { cancel: true }), ["resume"]],
  [task("failed"), ["resume"]],
  [task("done"), []],
])("%#: the actions match the state of the task", (one, acts) => expect(actsOf(one)).toEqual(acts));
