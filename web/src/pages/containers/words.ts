// A container in words, by its object: the words of client/planloop/client/render/containers.py.

import type { Json, Resource } from "../../log/record";
import { conditionsOf, list, map, oneLine, pathOf, stateOf, text } from "../../words/objects";

const UP: readonly string[] = ["running", "healthy"];
const RUNS: readonly string[] = ["running", "paused"];
const SAFE = /^[\w@%+=:,./-]+$/;

/** What it is made from, a digest cut to what tells it from others. */
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

/** `6379->6379`: the port of this machine and that inside, of those that are open now. */
export function portsOf(item: Resource): string[] {
  if (!isUp(item)) return [];
  return list(map(item.status.seen).ports).map((pair) => `${text(list(pair)[1])}->${text(list(pair)[0])}`);
}

/** How often it was started again. */
export function restartsOf(item: Resource): number {
  return Math.max(0, Number(item.status.starts ?? 0) - 1);
}

/** From when until when it ran, in seconds since 1970; undefined when it never did. */
export function lifeOf(item: Resource): { from: number; until?: number } | undefined {
  const seen = map(item.status.seen);
  const from = Number(seen.started_at ?? 0);
  if (!from) return undefined;
  const ended = Number(seen.ended_at ?? 0);
  return isUp(item) ? { from } : { from, until: ended || from };
}

/** Why it is not further; of one that is well, what runs in it. */
export function whatOf(item: Resource): string {
  const ready = conditionsOf(item).find((one) => one.type === "Ready");
  if (ready !== undefined && ready.message && !UP.includes(stateOf(item))) {
    const first = item.status.engine ? ready.unblocks[0] : undefined;
    return [oneLine(ready.message), first].filter(Boolean).join(" · ");
  }
  return oneLine(commandOf(item));
}

/** What runs in it as a person would type it; empty for what the image says. */
export function commandOf(item: Resource): string {
  return [...list(item.spec.entrypoint), ...list(item.spec.cmd)].map(quoted).join(" ");
}

function quoted(word: Json): string {
  const said = text(word);
  return SAFE.test(said) ? said : `'${said.replaceAll("'", `'"'"'`)}'`;
}

/** The tasks that wait for each container or that it is for, by the container's address. */
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

/** `2 of 3 containers up, 1 completed`. */
export function headlineOf(containers: readonly Resource[]): string {
  const up = containers.filter((one) => UP.includes(stateOf(one))).length;
  const completed = containers.filter((one) => stateOf(one) === "completed").length;
  const all = `${up} of ${containers.length} ${containers.length === 1 ? "container" : "containers"} up`;
  return completed ? `${all}, ${completed} completed` : all;
}

/** What it needs, with how it must be: by address. */
export function needsOf(item: Resource): [string, string][] {
  return Object.entries(map(item.spec.needs)).map(([name, how]) => [`container/${name}`, text(how)]);
}

/** Those that need it. */
export function neededBy(item: Resource, containers: ReadonlyMap<string, Resource>): string[] {
  const name = pathOf(item.address);
  return [...containers.values()].filter((one) => name in map(one.spec.needs)).map((one) => one.address);
}
