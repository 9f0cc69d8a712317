// Texts about a container, from its object: the same texts as client/planloop/client/render/containers.py.

import type { Json, Resource } from "../../log/record";
import { conditionsOf, list, map, oneLine, pathOf, stateOf, text } from "../../words/objects";

const UP: readonly string[] = ["running", "healthy"];
const RUNS: readonly string[] = ["running", "paused"];
const SAFE = /^[\w@%+=:,./-]+$/;

/** Returns the image with a shortened digest, the build folder or the root file system. */
export function sourceOf(item: Resource): string {
  const { spec } = item;
  const build = map(spec.build);
  if (Object.keys(build).length > 0) return `build ${text(build.folder) || "."}`;
  if (spec.rootfs) return `rootfs ${text(spec.rootfs)}`;
  return text(spec.image).replace(/(sha256:[0-9a-f]{12})[0-9a-f]{52}/, "$1");
}

export function isUp(item: Resource): boolean {
  return RUNS.includes(text(map(item.status.seen).run));
}

/** Returns the open ports, host port first: `6379->6379`. */
export function portsOf(item: Resource): string[] {
  if (!isUp(item)) return [];
  return list(map(item.status.seen).ports).map((pair) => `${text(list(pair)[1])}->${text(list(pair)[0])}`);
}

/** Returns the number of restarts. */
export function restartsOf(item: Resource): number {
  return Math.max(0, Number(item.status.starts ?? 0) - 1);
}

/** Returns when it started and ended, in seconds since 1970; undefined if it never ran. */
export function lifeOf(item: Resource): { from: number; until?: number } | undefined {
  const seen = map(item.status.seen);
  const from = Number(seen.started_at ?? 0);
  if (!from) return undefined;
  const ended = Number(seen.ended_at ?? 0);
  return isUp(item) ? { from } : { from, until: ended || from };
}

/** Returns the reason why it is not ready; the command if it is. */
export function whatOf(item: Resource): string {
  const ready = conditionsOf(item).find((one) => one.type === "Ready");
  if (ready !== undefined && ready.message && !UP.includes(stateOf(item))) {
    const first = item.status.engine ? ready.unblocks[0] : undefined;
    return [oneLine(ready.message), first].filter(Boolean).join(" · ");
  }
  return oneLine(commandOf(item));
}

/** Returns its command as typed in a shell; empty if the image defines it. */
export function commandOf(item: Resource): string {
  return [...list(item.spec.entrypoint), ...list(item.spec.cmd)].map(quoted).join(" ");
}

function quoted(word: Json): string {
  const value = text(word);
  return SAFE.test(value) ? value : `'${value.replaceAll("'", `'"'"'`)}'`;
}

/** Returns, by the container's address, the tasks that use each container or that it belongs to. */
export function usersOf(containers: ReadonlyMap<string, Resource>, tasks: ReadonlyMap<string, Resource>): Map<string, string[]> {
  const found = new Map<string, Set<string>>();
  const add = (container: string, task: string): void => {
    const known = found.get(container);
    if (known === undefined) found.set(container, new Set([task]));
    else known.add(task);
  };
  for (const item of containers.values()) {
    const own = `task/${text(item.spec.task)}`;
    if (item.spec.task && tasks.has(own)) add(item.address, own);
  }
  for (const task of tasks.values()) for (const one of list(task.spec.containers)) add(text(one), task.address);
  return new Map([...found].map(([container, users]) => [container, [...users]]));
}

/** Returns `2 of 3 containers up, 1 completed`. */
export function headlineOf(containers: readonly Resource[]): string {
  const up = containers.filter((one) => UP.includes(stateOf(one))).length;
  const completed = containers.filter((one) => stateOf(one) === "completed").length;
  const all = `${up} of ${containers.length} ${containers.length === 1 ? "container" : "containers"} up`;
  return completed ? `${all}, ${completed} completed` : all;
}

/** Returns the containers that it needs, with the state that it needs them in. */
export function needsOf(item: Resource): [string, string][] {
  return Object.entries(map(item.spec.needs)).map(([name, how]) => [`container/${name}`, text(how)]);
}

/** Returns the containers that need it. */
export function neededBy(item: Resource, containers: ReadonlyMap<string, Resource>): string[] {
  const name = pathOf(item.address);
  return [...containers.values()].filter((one) => name in map(one.spec.needs)).map((one) => one.address);
}
