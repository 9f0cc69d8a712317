// The tree of tasks as rows, in the plan's order, with the containers of a task below it. Pure.

import type { Resource } from "../../log/record";
import { list, nameOf, pathOf, stateOf, text } from "../../words/objects";

export const ROOT = "task/.";

export interface Row {
  item: Resource;
  name: string;
  /** From 1, as aria-level. */
  level: number;
  parent: string | null;
  hasChildren: boolean;
  isOpen: boolean;
  position: number;
  size: number;
}

export type Objects = ReadonlyMap<string, Resource>;

/** The visible part of the tree. */
export interface Filter {
  closed: ReadonlySet<string>;
  /** Lower-case words that a task's path or goal must contain. */
  words: readonly string[];
  /** The state that tasks must have; empty for all. */
  state: string;
}

/** Returns the children of every task: those in its spec, in that order, then those being deleted. */
export function childrenOf(tasks: Objects, containers: Objects): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const listed = new Set<string>();
  const add = (parent: string, child: string): void => {
    const others = found.get(parent);
    if (others === undefined) found.set(parent, [child]);
    else others.push(child);
  };
  for (const one of containers.values()) add(`task/${text(one.spec.task) || "."}`, one.address);
  for (const task of tasks.values()) {
    for (const child of list(task.spec.children)) {
      const address = text(child);
      if (!tasks.has(address)) continue;
      listed.add(address);
      add(task.address, address);
    }
  }
  for (const task of tasks.values()) {
    const parent = text(task.spec.parent);
    if (parent && !listed.has(task.address)) add(tasks.has(parent) ? parent : ROOT, task.address);
  }
  return found;
}

/** Returns the visible rows, the root first. A match is shown with its ancestors. */
export function rows(tasks: Objects, containers: Objects, children: ReadonlyMap<string, readonly string[]>, filter: Filter): Row[] {
  const kept = filter.words.length > 0 || filter.state ? matching(tasks, containers, filter) : null;
  const out: Row[] = [];
  const walk = (address: string, level: number, parent: string | null, position: number, size: number): void => {
    const item = tasks.get(address) ?? containers.get(address);
    if (item === undefined) return;
    const all = children.get(address) ?? [];
    const visible = kept === null ? all : all.filter((child) => kept.has(child));
    const isOpen = kept !== null || !filter.closed.has(address);
    const name = item.address.startsWith("container/") ? item.address : nameOf(address);
    out.push({ item, name, level, parent, hasChildren: visible.length > 0, isOpen, position, size });
    if (isOpen) for (const [at, child] of visible.entries()) walk(child, level + 1, address, at + 1, visible.length);
  };
  walk(ROOT, 1, null, 1, 1);
  return out;
}

function matching(tasks: Objects, containers: Objects, filter: Filter): Set<string> {
  const kept = new Set<string>();
  for (const item of [...tasks.values(), ...containers.values()]) {
    if (item.address === ROOT || (filter.state && stateOf(item) !== filter.state)) continue;
    const searched = `${pathOf(item.address)} ${text(item.spec.goal)}`.toLowerCase();
    if (!filter.words.every((word) => searched.includes(word))) continue;
    kept.add(item.address);
    let at = item.address.startsWith("container/") ? `task/${text(item.spec.task) || "."}` : text(item.spec.parent);
    for (; at !== "" && !kept.has(at); at = text(tasks.get(at)?.spec.parent)) kept.add(at);
  }
  return kept;
}

/** Counts tasks by state, without the root, whose state follows from the others. */
export function counts(tasks: Objects): Map<string, number> {
  const found = new Map<string, number>();
  for (const task of tasks.values()) {
    if (task.address === ROOT && tasks.size > 1) continue;
    const state = stateOf(task);
    found.set(state, (found.get(state) ?? 0) + 1);
  }
  return found;
}

/** The effect of a key at the row `at`: move, open, close or select. Undefined for other keys. */
export type Step = { to: number } | { open: string } | { close: string } | { choose: string };

export function step(key: string, rows: readonly Row[], at: number, page: number): Step | undefined {
  const row = rows[at];
  if (row === undefined) return rows.length > 0 ? { to: 0 } : undefined;
  const address = row.item.address;
  switch (key) {
    case "ArrowDown":
      return { to: Math.min(rows.length - 1, at + 1) };
    case "ArrowUp":
      return { to: Math.max(0, at - 1) };
    case "PageDown":
      return { to: Math.min(rows.length - 1, at + page) };
    case "PageUp":
      return { to: Math.max(0, at - page) };
    case "Home":
      return { to: 0 };
    case "End":
      return { to: rows.length - 1 };
    case "ArrowRight":
      if (!row.hasChildren) return undefined;
      return row.isOpen ? { to: at + 1 } : { open: address };
    case "ArrowLeft":
      if (row.hasChildren && row.isOpen) return { close: address };
      return row.parent === null ? undefined : { to: rows.findIndex((one) => one.item.address === row.parent) };
    case "Enter":
    case " ":
      return { choose: address };
    default:
      return key.length === 1 && /\S/.test(key) ? typed(key.toLowerCase(), rows, at) : undefined;
  }
}

/** Returns the next row whose name starts with that letter. */
function typed(letter: string, rows: readonly Row[], at: number): Step | undefined {
  for (let step = 1; step <= rows.length; step += 1) {
    const to = (at + step) % rows.length;
    if (rows[to]?.name.toLowerCase().startsWith(letter)) return { to };
  }
  return undefined;
}

/** Returns the active row after the rows have changed: the same object by its uid, else the same index. */
export function kept(rows: readonly Row[], uid: string, before: number): number {
  const found = rows.findIndex((row) => row.item.uid === uid);
  return found >= 0 ? found : Math.min(Math.max(0, before), rows.length - 1);
}
