import { expect, it } from "vitest";
import type { JsonObject, Resource } from "../src/log/record";
import { isFull, waitsForSlot } from "../src/pages/plan/slots";

function task(path: string, kind: string, status: JsonObject, more: JsonObject = {}): [string, Resource] {
  const parent = path === "." ? null : path.includes("/") ? `task/${path.slice(0, path.lastIndexOf("/"))}` : "task/.";
  const spec = { work: { kind }, needs: [], parent, ...more };
  return [`task/${path}`, { address: `task/${path}`, uid: path, generation: 1, spec, status, deleting: false, created_rev: 1, rev: 1 } as unknown as Resource];
}

const tasks = new Map([
  task(".", "group", { stage: "work", state: "running" }),
  task("maker", "agent", { stage: "work", state: "running" }),
  task("maker/part", "run", { stage: "work", state: "running" }),
  task("maker/next", "run", {}),
  task("over", "run", { stage: "done", state: "done" }),
  task("free", "run", {}, { needs: ["task/over"] }),
  task("later", "run", {}, { needs: ["task/free"] }),
  task("failed", "run", { stage: "failed", state: "failed" }),
]);

it("counts a working task once, with its descendants", () => {
  expect(isFull(tasks, undefined)).toBe(false);
  expect(isFull(tasks, 1)).toBe(true);
  expect(isFull(tasks, 2)).toBe(false);
});

it("finds the tasks that wait only for a slot", () => {
  const waiting = [...tasks.values()].filter((one) => waitsForSlot(one, tasks)).map((one) => one.address);
  expect(waiting).toEqual(["task/free"]);
});
