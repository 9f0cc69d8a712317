import { describe, expect, it } from "vitest";
import type { Resource } from "../src/log/record";
import { headlineOf, portsOf, restartsOf, sourceOf, usersOf, whatOf } from "../src/pages/containers/words";
import { where } from "../src/pages/benchmarks/where";
import { stateOf } from "../src/words/objects";
import corpus from "./corpus/containers.json";

interface Worded {
  object: Resource;
  state: string;
  source: string;
  ports: string;
  restarts: string;
  what: string;
}

const FOUND = corpus.containers as unknown as Worded[];

describe("containers have the same texts as on the command line", () => {
  it.each(FOUND.map((one) => [one.object.address, one] as const))("%s", (_, { object, ...wanted }) => {
    const texts = { state: stateOf(object), source: sourceOf(object), ports: portsOf(object).join(", "), restarts: String(restartsOf(object) || ""), what: whatOf(object) };
    expect(texts).toEqual(wanted);
  });

  it("all of them", () => expect(headlineOf(FOUND.map((one) => one.object))).toBe(corpus.headline));
});

describe("users of a container", () => {
  const task = (address: string, containers: string[] = []): [string, Resource] => [address, { address, spec: { containers } } as unknown as Resource];
  const container = (address: string, own = ""): [string, Resource] => [address, { address, spec: { task: own } } as unknown as Resource];

  it("are its own task and the tasks that need it, each once", () => {
    const users = usersOf(new Map([container("container/a", "x"), container("container/b")]), new Map([task("task/x", ["container/a"]), task("task/y", ["container/a"])]));
    expect(users).toEqual(new Map([["container/a", ["task/x", "task/y"]]]));
  });
});

describe("a path of the benchmarks", () => {
  it.each([
    ["", { at: "all" }],
    ["suite/more/suite.yaml", { at: "suite", key: "more/suite.yaml" }],
    ["run/notes/first", { at: "run", suite: "notes", run: "first" }],
    ["run/notes/first/greeting", { at: "case", suite: "notes", run: "first", case: "greeting" }],
    ["run/notes/first/greeting/ollama/qwen3:8b/2", { at: "entry", suite: "notes", run: "first", case: "greeting", model: "ollama/qwen3:8b", trial: 2 }],
    ["compare/a/b/c/d", { at: "compare", runs: ["a/b", "c/d"] }],
    ["compare/a", { at: "compare", runs: [] }],
    ["run/notes", { at: "all" }],
  ])("%s", (rest, found) => expect(where(rest)).toEqual(found));
});
