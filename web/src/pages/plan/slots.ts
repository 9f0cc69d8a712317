// Which tasks wait for `limits.tasks`: of such a one nothing is written (controllers/planloop/controllers/task/counters.py). Pure.

import type { Resource } from "../../log/record";
import { list, map, stateOf, text } from "../../words/objects";

type Tasks = ReadonlyMap<string, Resource>;

const BEGUN: readonly string[] = ["before", "work", "verify"];
const MOVING: readonly string[] = ["running", "checking", "stopping"];
const OPEN_PARENT: readonly string[] = ["work", "verify", "done", "failed"];

/** Whether as many tasks are at work as the plan allows; `bound` undefined: it allows any number. */
export function isFull(tasks: Tasks, bound: number | undefined): boolean {
  if (bound === undefined) return false;
  let taken = 0;
  for (const task of tasks.values()) if (isAtWork(task) && takesSlot(task, tasks)) taken += 1;
  return taken >= bound;
}

/** Whether nothing is in the way of `task` but that all slots are taken. */
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
  return BEGUN.includes(text(task.status.stage)) || MOVING.includes(text(task.status.state));
}

/** Groups take none, and what is below a task with an agent or a command works in that one's. */
function takesSlot(task: Resource, tasks: Tasks): boolean {
  if (isGroup(task)) return false;
  for (let above = tasks.get(text(task.spec.parent)); above !== undefined; above = tasks.get(text(above.spec.parent)))
    if (!isGroup(above)) return false;
  return true;
}

function isGroup(task: Resource): boolean {
  return map(task.spec.work).kind === "group";
}
