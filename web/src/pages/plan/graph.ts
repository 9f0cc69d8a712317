// Selects the boxes and arrows of the dependency graph: groups are opened while there is room, and the remaining tasks
// share one box, so that a plan of 10,000 tasks stays readable. Pure.

import { list, stateOf, text } from "../../words/objects";
import { childrenOf, type Objects, ROOT } from "./tree";

/** Groups open automatically up to this number of boxes. A group draws at most this number of children. */
export const BOXES_MAX = 80;
export const CHILDREN_MAX = 24;
/** Pixels. */
export const BOX = { width: 190, height: 40 };

export interface Box {
  id: string;
  /** The group that it is drawn in; empty at the top. */
  group: string;
  kind: "task" | "folded" | "rest";
  /** The number of tasks in a folded group or in the box of remaining tasks. */
  count: number;
}

export interface Picture {
  boxes: Box[];
  /** Open groups, outer ones first, with their enclosing group. */
  groups: { id: string; group: string }[];
  arrows: { from: string; to: string }[];
}

const EAGER: readonly string[] = ["running", "checking", "blocked", "failed", "paused", "stopping"];

/** Returns the graph. The user's `opened` and `folded` groups take precedence; the task `chosen` is always drawn. */
export function pictured(tasks: Objects, opened: ReadonlySet<string>, folded: ReadonlySet<string>, chosen: string): Picture {
  const children = childrenOf(tasks, new Map());
  const sizes = sizesOf(children);
  const open = openGroups(tasks, children, opened, folded, chosen);
  const boxes: Box[] = [];
  const groups: Picture["groups"] = [];
  const boxOf = new Map<string, string>(); // The box that contains each task.
  const claim = (address: string, box: string): void => {
    boxOf.set(address, box);
    for (const child of children.get(address) ?? []) claim(child, box);
  };
  const draw = (group: string): void => {
    const { shown, rest } = chosenFew(tasks, children, children.get(group) ?? [], chosen);
    for (const child of shown) {
      if (open.has(child)) {
        groups.push({ id: child, group: group === ROOT ? "" : group });
        draw(child);
        continue;
      }
      const isGroup = (children.get(child)?.length ?? 0) > 0;
      boxes.push({ id: child, group: group === ROOT ? "" : group, kind: isGroup ? "folded" : "task", count: sizes.get(child) ?? 0 });
      claim(child, child);
    }
    if (rest.length > 0) {
      const id = `rest:${group}`;
      const count = rest.reduce((sum, one) => sum + 1 + (sizes.get(one) ?? 0), 0);
      boxes.push({ id, group: group === ROOT ? "" : group, kind: "rest", count });
      for (const one of rest) claim(one, id);
    }
  };
  draw(ROOT);
  if (boxes.length === 0 && tasks.has(ROOT)) boxes.push({ id: ROOT, group: "", kind: "task", count: 0 });
  return { boxes, groups, arrows: arrowsOf(tasks, children, open, boxOf) };
}

function sizesOf(children: ReadonlyMap<string, readonly string[]>): Map<string, number> {
  const sizes = new Map<string, number>();
  const size = (address: string): number => {
    let sum = 0;
    for (const child of children.get(address) ?? []) sum += 1 + size(child);
    sizes.set(address, sum);
    return sum;
  };
  size(ROOT);
  return sizes;
}

/** Returns the open groups: from the top while there is room, ancestors of the chosen task, and those the user opened. */
function openGroups(
  tasks: Objects,
  children: ReadonlyMap<string, readonly string[]>,
  opened: ReadonlySet<string>,
  folded: ReadonlySet<string>,
  chosen: string,
): Set<string> {
  const open = new Set<string>([ROOT]);
  for (let at = text(tasks.get(chosen)?.spec.parent); at; at = text(tasks.get(at)?.spec.parent)) open.add(at);
  const width = (group: string): number => Math.min(CHILDREN_MAX + 1, children.get(group)?.length ?? 0);
  let room = BOXES_MAX - [...open].reduce((sum, one) => sum + width(one), 0);
  const queue = [ROOT];
  for (let at = 0; at < queue.length; at += 1) {
    for (const child of children.get(queue[at] as string) ?? []) {
      const needed = width(child);
      if (needed === 0 || folded.has(child)) continue;
      const isTooLarge = needed > room || needed > CHILDREN_MAX; // Large groups open only on request.
      if (!open.has(child) && !opened.has(child) && isTooLarge) continue;
      if (!open.has(child)) room -= needed;
      open.add(child);
      queue.push(child);
    }
  }
  for (const group of folded) if (group !== ROOT) open.delete(group);
  return open;
}

/** Splits many siblings into the most relevant ones, in the plan's order, and the rest. */
function chosenFew(tasks: Objects, children: ReadonlyMap<string, readonly string[]>, all: readonly string[], chosen: string): { shown: string[]; rest: string[] } {
  if (all.length <= CHILDREN_MAX) return { shown: [...all], rest: [] };
  const near = new Set([chosen, ...list(tasks.get(chosen)?.spec.needs).map(text)]);
  const holds = (address: string): boolean => near.has(address) || chosen.startsWith(`${address}/`);
  const weight = (address: string): number => {
    const task = tasks.get(address);
    if (task === undefined) return 4;
    if (holds(address) || list(task.spec.needs).some((need) => text(need) === chosen)) return 0;
    if (EAGER.includes(stateOf(task))) return 1;
    return (children.get(address)?.length ?? 0) > 0 ? 2 : 3;
  };
  const ranked = all.map((address, at) => ({ address, at, weight: weight(address) })).sort((a, b) => a.weight - b.weight || a.at - b.at);
  const kept = new Set(ranked.slice(0, CHILDREN_MAX).map((one) => one.address));
  return { shown: all.filter((one) => kept.has(one)), rest: all.filter((one) => !kept.has(one)) };
}

/** Returns an arrow for every need, between the boxes of both tasks. Open groups connect at their first and last tasks. */
function arrowsOf(
  tasks: Objects,
  children: ReadonlyMap<string, readonly string[]>,
  open: ReadonlySet<string>,
  boxOf: ReadonlyMap<string, string>,
): Picture["arrows"] {
  const needed = new Set<string>();
  for (const task of tasks.values()) for (const need of list(task.spec.needs)) needed.add(text(need));
  const first = (address: string): string[] =>
    open.has(address) && !boxOf.has(address)
      ? few((children.get(address) ?? []).filter((child) => list(tasks.get(child)?.spec.needs).length === 0).flatMap(first))
      : [address];
  const last = (address: string): string[] =>
    open.has(address) && !boxOf.has(address)
      ? few((children.get(address) ?? []).filter((child) => !needed.has(child)).flatMap(last))
      : [address];
  const found = new Map<string, { from: string; to: string }>();
  for (const task of tasks.values()) {
    for (const need of list(task.spec.needs)) {
      for (const start of last(text(need))) {
        for (const end of first(task.address)) {
          const [from, to] = [boxOf.get(start), boxOf.get(end)];
          if (from !== undefined && to !== undefined && from !== to) found.set(`${from}\n${to}`, { from, to });
        }
      }
    }
  }
  return [...found.values()];
}

/** Limits the arrows of a group: more of them add no information. */
function few(ends: string[]): string[] {
  return ends.slice(0, 6);
}

/** Returns a text that changes only if a new layout is needed. */
export function shapeOf(picture: Picture): string {
  const boxes = picture.boxes.map((box) => `${box.group}>${box.id}`);
  return [...boxes, "|", ...picture.groups.map((one) => one.id), "|", ...picture.arrows.map((one) => `${one.from}>${one.to}`)].join("\n");
}
