// Finds tasks that wait for `limits.tasks`. No record is written for them (controllers/planloop/controllers/task/counters.py). Pure.

import type { Resource } from "../../log/record";
import { list, map, stateOf, text } from "../../words/objects";

type Tasks = ReadonlyMap<string, Resource>;

const STARTED: readonly string[] = ["before", "work", "verify"];
const WORKING: readonly string[] = ["running", "checking", "stopping"];
const OPEN_PARENT: readonly string[] = ["work", "verify", "done", "failed"];

/** Whether the number of working tasks has reached `bound`; undefined means no limit. */
export function isFull(tasks: Tasks, bound: number | undefined): boolean {
  if (bound === undefined) return false;
  let taken = 0;
  for (const task of tasks.values()) if (isAtWork(task) && takesSlot(task, tasks)) taken += 1;
  return taken >= bound;
}

/** Whether `task` could start if a slot were free. */
export function waitsForSlot(task: Resource, tasks: Tasks): boolean {
  if (Object.keys(task.status).length > 0 || task.deleting || !takesSlot(task, tasks)) return false;
  const parent = tasks.get(text(task.spec.parent));
  if (parent === undefined || !OPEN_PARENT.includes(text(parent.status.stage))) return false;
  return list(task.spec.needs).every((need) => {
    const needed = tasks.get(text(need));
    return needed !== undefined && stateOf(needed) === "done";
  });
}

function isAtWork(task: Resource): boolean {
  return STARTED.includes(text(task.status.stage)) || WORKING.includes(text(task.status.state));
}

/** Whether the task needs a slot. Groups need none; descendants of a task with an agent or command share its slot. */
function takesSlot(task: Resource, tasks: Tasks): boolean {
  if (isGroup(task)) return false;
  for (let above = tasks.get(text(task.spec.parent)); above !== undefined; above = tasks.get(text(above.spec.parent)))
    if (!isGroup(above)) return false;
  return true;
}

function isGroup(task: Resource): boolean {
  return map(task.spec.work).kind === "group";
}
