// Shared state of the Plan page: values derived from the log, and the user's search, filters and closed branches.

import { computed, signal } from "@preact/signals";
import { plan } from "../../log/plan";
import type { Resource } from "../../log/record";
import { conditionsOf, list, map, text } from "../../words/objects";
import { Costs } from "../../words/budgets";
import { isFull, waitsForSlot } from "./slots";
import { childrenOf, counts, rows } from "./tree";

export const tasks = plan.kind("task");
export const containers = plan.kind("container");
export const agents = plan.kind("agent");
export const calls = plan.kind("call");
export const locks = plan.kind("lock");

export const closed = signal<ReadonlySet<string>>(new Set());
export const search = signal("");
export const wantedState = signal("");
/** The uid of the active row, and its last index. */
export const active = signal<{ uid: string; at: number }>({ uid: "", at: 0 });

export const children = computed(() => childrenOf(tasks.value, containers.value));
export const stateCounts = computed(() => counts(tasks.value));
export const costs = computed(() => new Costs(tasks.value, agents.value));
export const treeRows = computed(() => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  return rows(tasks.value, containers.value, children.value, { closed: closed.value, words, state: wantedState.value });
});

const areSlotsTaken = computed(() => {
  const [document] = plan.kind("plan").value.values();
  const bound = map(document?.spec.limits).tasks;
  return isFull(tasks.value, typeof bound === "number" ? bound : undefined);
});

/** Whether the task waits only for `limits.tasks`. */
export function waitsOnlyForSlot(item: Resource): boolean {
  return areSlotsTaken.value && waitsForSlot(item, tasks.value);
}

/** Whether the task's agent works on it and does not wait, fix failed checks or resolve a merge conflict. */
export function isAgentAtWork(item: Resource): boolean {
  const conditions = conditionsOf(item);
  const isWorking = text(map(item.spec.work).agent) !== "" && conditions.some((one) => one.type === "Progressing" && one.reason === "Running");
  const hasConflict = conditions.some((one) => one.type === "MergeConflict" && one.status === "True");
  return isWorking && !hasConflict && list(map(item.status.verdict).failing).length === 0;
}

/** Open calls, by the agent that made them. */
export const callsOf = computed(() => {
  const found = new Map<string, string[]>();
  for (const call of calls.value.values()) {
    const owner = text(call.spec.owner);
    found.set(owner, [...(found.get(owner) ?? []), call.address]);
  }
  return found;
});

/** The tasks that need each task. */
export const neededBy = computed(() => {
  const found = new Map<string, string[]>();
  for (const task of tasks.value.values()) {
    for (const need of list(task.spec.needs)) {
      const others = found.get(text(need));
      if (others === undefined) found.set(text(need), [task.address]);
      else others.push(task.address);
    }
  }
  return found;
});
