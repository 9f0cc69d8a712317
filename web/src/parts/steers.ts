// The actions that a task's state allows: pause, resume, cancel. Pure.

import type { Resource } from "../log/record";
import { stateOf } from "../words/objects";

export type Act = "pause" | "resume" | "cancel";

/** Returns `pause` or `resume`, whichever applies, then `cancel`. A failed or cancelled task can only be resumed. */
export function actsOf(task: Resource): Act[] {
  const state = stateOf(task);
  if (state === "deleting") return [];
  const isOver = ["done", "failed", "cancelled"].includes(state);
  const isHeld = task.spec.pause === true || task.spec.cancel === true || ["paused", "failed", "cancelled"].includes(state);
  const toggle: Act[] = isHeld ? ["resume"] : isOver ? [] : ["pause"];
  return isOver || task.spec.cancel === true ? toggle : [...toggle, "cancel"];
}
