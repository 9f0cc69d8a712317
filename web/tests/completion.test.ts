import { describe, expect, it } from "vitest";
import { described, keyOptions, namesIn, type Schema, valueOptions } from "../src/pages/edit/completion";
import { keyAt, placeAt } from "../src/pages/edit/place";
import document from "../../schemas/planloop/schemas/json/plan.schema.json";

const SCHEMA = document as unknown as Schema;

/** The place of the `¦` in a text. */
function at(text: string) {
  const lines = text.split("\n");
  const row = lines.findIndex((line) => line.includes("¦"));
  const column = lines[row]?.indexOf("¦") ?? -1;
  return placeAt(lines.map((line) => line.replace("¦", "")), row, column);
}

describe("the place of the cursor", () => {
  it.each([
    ["an empty text", "¦", [], "key"],
    ["a word at the top", "plan: p\nta¦", [], "key"],
    ["a value", "plan: p\ngoal: fo¦", ["goal"], "value"],
    ["below a key", "tasks:\n  a:\n    go¦", ["tasks", "a"], "key"],
    ["an empty line below a key", "tasks:\n  a:\n    ¦", ["tasks", "a"], "key"],
    ["an empty line that is less indented", "tasks:\n  a:\n    goal: x\n  ¦", ["tasks"], "key"],
    ["past comments and empty lines", "tasks:\n  a:\n    # why\n\n    goal: x\n    ag¦", ["tasks", "a"], "key"],
    ["an item of a list", "tasks:\n  a:\n    needs:\n      - b¦", ["tasks", "a", "needs", "-"], "both"],
    ["an item at the column of its key", "tasks:\n  a:\n    needs:\n    - b¦", ["tasks", "a", "needs", "-"], "both"],
    ["a key of an item", "tasks:\n  a:\n    acceptance:\n      - sh: x\n        ti¦", ["tasks", "a", "acceptance", "-"], "key"],
    ["a value of an item", "acceptance:\n  - sh: x\n  - contains:\n      pa¦", ["acceptance", "-", "contains"], "key"],
    ["a list in brackets", "tasks:\n  a:\n    needs: [b, c¦", ["tasks", "a", "needs", "-"], "value"],
    ["a map in braces", "tasks:\n  a: {goal: x, ag¦", ["tasks", "a"], "key"],
    ["a value in braces", "tasks:\n  a: {agent: {model: m¦", ["tasks", "a", "agent", "model"], "value"],
    ["after braces are closed", "tasks:\n  a: {agent: {model: m}, ne¦", ["tasks", "a"], "key"],
    ["a quoted key", "tasks:\n  \"a b\":\n    go¦", ["tasks", "a b"], "key"],
  ])("is found in %s", (_, text, path, kind) => {
    const found = at(text);
    expect(found?.path).toEqual(path);
    expect([found?.isKey, found?.isValue]).toEqual({ key: [true, false], value: [false, true], both: [true, true] }[kind]);
  });

  it.each([
    ["a comment", "goal: x # so¦"],
    ["a block text", "tasks:\n  a:\n    run: |\n      ma¦"],
  ])("does not exist in %s", (_, text) => {
    expect(at(text)).toBeUndefined();
  });

  it("has the typed word and its start", () => {
    expect(at("tasks:\n  a: {agent: wor¦")).toMatchObject({ word: "wor", column: 13 });
  });

  it("is that of the key under the pointer", () => {
    expect(keyAt(["tasks:", "  a:", "    goal: x"], 2, 6)).toEqual({ path: ["tasks", "a", "goal"], from: 4, to: 8 });
    expect(keyAt(["tasks:", "  a:", "    goal: x"], 2, 10)).toBeUndefined();
  });
});

describe("completion", () => {
  it("offers the fields of a task, with their descriptions", () => {
    const needs = keyOptions(SCHEMA, ["tasks", "a"]).find((one) => one.label === "needs");
    expect(needs?.info).toContain("must be done first");
    expect(needs?.apply).toBe("needs: ");
    expect(keyOptions(SCHEMA, ["tasks", "a", "tasks", "b"]).map((one) => one.label)).toContain("needs");
  });

  it("offers nothing for a new name", () => {
    expect(keyOptions(SCHEMA, ["tasks"])).toEqual([]);
  });

  it("offers the fields of an inline agent, and of a check in a list", () => {
    expect(keyOptions(SCHEMA, ["tasks", "a", "agent"]).map((one) => one.label)).toContain("model");
    expect(keyOptions(SCHEMA, ["tasks", "a", "acceptance", "-"]).map((one) => one.label)).toContain("require-file");
  });

  it("offers the values of an enum", () => {
    const found = valueOptions(SCHEMA, ["tasks", "a", "effect"], {});
    expect(found.map((one) => one.label)).toEqual(["read", "idempotent", "reconcilable", "once"]);
    expect(found.find((one) => one.label === "once")?.detail).toBe("default");
    expect(valueOptions(SCHEMA, ["tasks", "a", "pause"], {}).map((one) => one.label)).toEqual(["true", "false"]);
  });

  it("offers names from the plan", () => {
    const names = namesIn({
      agents: { worker: { model: "ollama/small", tools: ["shell"] } },
      containers: { redis: {} },
      tasks: { a: { locks: ["src/**"], tasks: { b: {} } }, c: { locks: [{ path: "docs", mode: "read" }] } },
    });
    const labels = (...path: string[]) => valueOptions(SCHEMA, path, names).map((one) => one.label);
    expect(labels("tasks", "c", "agent")).toEqual(["worker"]);
    expect(labels("tasks", "c", "needs", "-")).toEqual(["a", "a/b", "c", "redis"]);
    expect(labels("tasks", "c", "locks", "-")).toEqual(["src/**", "docs"]);
    expect(labels("tasks", "c", "agent", "model")).toEqual(["ollama/small"]);
    expect(labels("tasks", "c", "goal")).toEqual([]);
  });

  it("describes the field under the pointer", () => {
    expect(described(SCHEMA, ["tasks", "a", "goal"])).toMatchObject({ detail: "text", doc: expect.stringContaining("goal") });
    expect(described(SCHEMA, ["tasks", "a"])).toBeUndefined();
  });
});
