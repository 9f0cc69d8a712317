import { describe, expect, it } from "vitest";
import type { JsonObject, Resource } from "../src/log/record";
import { BOXES_MAX, CHILDREN_MAX, pictured, shapeOf } from "../src/pages/plan/graph";
import { laidOut } from "../src/pages/plan/layout";
import { childrenOf, counts, kept, type Objects, rows, step, type Filter } from "../src/pages/plan/tree";

function task(address: string, spec: JsonObject = {}, status: JsonObject = {}): Resource {
  return { address, uid: `uid of ${address}`, generation: 1, spec: { children: [], needs: [], ...spec }, status, created_rev: 1, rev: 1 };
}

/** A tree of tasks from `path: needs`, in that order. */
function plan(tasks: Record<string, string[]>): Map<string, Resource> {
  const found = new Map([["task/.", task("task/.", { parent: null })]]);
  for (const [path, needs] of Object.entries(tasks)) {
    const parent = path.includes("/") ? `task/${path.slice(0, path.lastIndexOf("/"))}` : "task/.";
    found.set(`task/${path}`, task(`task/${path}`, { parent, needs: needs.map((need) => `task/${need}`) }));
    const old = found.get(parent) as Resource;
    found.set(parent, { ...old, spec: { ...old.spec, children: [...(old.spec.children as string[]), `task/${path}`] } });
  }
  return found;
}

const NONE: Objects = new Map();
const ALL: Filter = { closed: new Set<string>(), words: [], state: "" };
const SMALL = plan({ b: [], "b/y": [], "b/x": ["b/y"], a: ["b"], c: [] });

function names(tasks: Objects, filter = ALL): string[] {
  return rows(tasks, NONE, childrenOf(tasks, NONE), filter).map((row) => row.item.address);
}

describe("the tree", () => {
  it("has the tasks in the plan's order, each below its parent", () => {
    expect(names(SMALL)).toEqual(["task/.", "task/b", "task/b/y", "task/b/x", "task/a", "task/c"]);
  });

  it("hides the tasks of a closed group", () => {
    expect(names(SMALL, { ...ALL, closed: new Set(["task/b"]) })).toEqual(["task/.", "task/b", "task/a", "task/c"]);
  });

  it("keeps a deleted task at the end of its parent", () => {
    const leaving = new Map(SMALL).set("task/b/old", { ...task("task/b/old", { parent: "task/b" }), deleting: true });
    expect(names(leaving)).toEqual(["task/.", "task/b", "task/b/y", "task/b/x", "task/b/old", "task/a", "task/c"]);
  });

  it("shows matches with their ancestors, also in closed groups", () => {
    expect(names(SMALL, { ...ALL, closed: new Set(["task/b"]), words: ["b/x"] })).toEqual(["task/.", "task/b", "task/b/x"]);
    expect(names(SMALL, { ...ALL, state: "done" })).toEqual(["task/."]);
  });

  it("has the containers of a task below it", () => {
    const containers = new Map([["container/db", { ...task("container/db", { task: "b" }), address: "container/db" }]]);
    const found = rows(SMALL, containers, childrenOf(SMALL, containers), ALL).map((row) => row.item.address);
    expect(found.slice(0, 3)).toEqual(["task/.", "task/b", "container/db"]);
  });

  it("counts states without the root", () => {
    expect(counts(SMALL)).toEqual(new Map([["waiting", 5]]));
  });
});

describe("the keyboard in the tree", () => {
  const found = rows(SMALL, NONE, childrenOf(SMALL, NONE), ALL);
  it.each([
    ["ArrowDown", 0, { to: 1 }],
    ["ArrowUp", 0, { to: 0 }],
    ["End", 0, { to: 5 }],
    ["Home", 5, { to: 0 }],
    ["PageDown", 4, { to: 5 }],
    ["ArrowRight", 1, { to: 2 }],
    ["ArrowRight", 2, undefined],
    ["ArrowLeft", 2, { to: 1 }],
    ["ArrowLeft", 1, { close: "task/b" }],
    ["ArrowLeft", 5, { to: 0 }],
    ["Enter", 4, { choose: "task/a" }],
    ["c", 0, { to: 5 }],
    ["y", 3, { to: 2 }],
    ["Tab", 3, undefined],
  ])("%s at %d", (key, at, wanted) => expect(step(key, found, at, 10)).toEqual(wanted));

  it("follows a renamed task, and keeps the index of a deleted one", () => {
    expect(kept(found, "uid of task/a", 0)).toBe(4);
    expect(kept(found, "uid of a deleted task", 5)).toBe(5);
    expect(kept(found.slice(0, 3), "uid of a deleted task", 5)).toBe(2);
  });
});

describe("the graph", () => {
  it("connects arrows with the first and last tasks of an open group", () => {
    const picture = pictured(SMALL, new Set(), new Set(), "");
    expect(picture.groups.map((group) => group.id)).toEqual(["task/b"]);
    expect(picture.arrows).toEqual([
      { from: "task/b/y", to: "task/b/x" },
      { from: "task/b/x", to: "task/a" },
    ]);
  });

  it("draws a folded group as one box with its arrows", () => {
    const picture = pictured(SMALL, new Set(), new Set(["task/b"]), "");
    expect(picture.boxes.map((box) => [box.id, box.kind, box.count])).toEqual([
      ["task/b", "folded", 2],
      ["task/a", "task", 0],
      ["task/c", "task", 0],
    ]);
    expect(picture.arrows).toEqual([{ from: "task/b", to: "task/a" }]);
  });

  it("limits 10,000 tasks to a readable number, including the selected one", () => {
    const many: Record<string, string[]> = {};
    for (let n = 0; n < 10_000; n += 1) many[`g${n % 20}${n < 20 ? "" : `/t${n}`}`] = n < 40 ? [] : [`g${n % 20}/t${n - 20}`];
    const tasks = plan(many);
    const picture = pictured(tasks, new Set(), new Set(), "task/g3/t9983");
    expect(picture.boxes.length).toBeLessThanOrEqual(BOXES_MAX + 2 * CHILDREN_MAX);
    expect(picture.boxes.some((box) => box.id === "task/g3/t9983")).toBe(true);
    expect(picture.boxes.find((box) => box.kind === "rest")?.count).toBeGreaterThan(400);
    const known = new Set(picture.boxes.map((box) => box.id));
    expect(picture.arrows.every((arrow) => known.has(arrow.from) && known.has(arrow.to))).toBe(true);
  });

  it("keeps its layout when a state changes", () => {
    const running = new Map(SMALL).set("task/c", task("task/c", { parent: "task/." }, { state: "running" }));
    const [before, after] = [SMALL, running].map((tasks) => shapeOf(pictured(tasks, new Set(), new Set(), "")));
    expect(after).toBe(before);
  });

  it("lays out arrows from left to right, and groups around their tasks", () => {
    const laid = laidOut(pictured(SMALL, new Set(), new Set(), ""));
    const [x, y, a, group] = ["task/b/x", "task/b/y", "task/a", "task/b"].map((id) => laid.places[id]);
    if (x === undefined || y === undefined || a === undefined || group === undefined) throw new Error("something has no place");
    expect(y.x).toBeLessThan(x.x);
    expect(x.x).toBeLessThan(a.x);
    expect(group.x).toBeLessThan(y.x);
    expect(group.x + group.width).toBeGreaterThan(x.x + x.width);
    expect(laid.arrows.every((arrow) => arrow.points.length >= 2)).toBe(true);
  });
});
