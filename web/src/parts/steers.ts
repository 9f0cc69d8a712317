// What may be asked of a task as it is: to pause, to go on, to be cancelled. Pure.

import type { Resource } from "../log/record";
import { stateOf } from "../words/objects";

export type Act = "pause" | "resume" | "cancel";

/** The one of pausing and resuming that makes sense, then cancelling. What has ended has nothing that could be stopped. */
export function actsOf(task: Resource): Act[] {
  const state = stateOf(task);
  if (state === "deleting") return [];
  const isOver = ["done", "failed", "cancelled"].includes(state);
  const isHeld = task.spec.pause === true || task.spec.cancel === true || ["paused", "failed", "cancelled"].includes(state);
  const turn: Act[] = isHeld ? ["resume"] : isOver ? [] : ["pause"];
  return isOver || task.spec.cancel === true ? turn : [...turn, "cancel"];
}
