import { describe, expect, it } from "vitest";
import { type Item, ofThread, stretches, threadsOf } from "../src/pages/agents/turns";
import { hunks, lineDiff } from "../src/words/lines";

const message = (thread: string): NonNullable<Item["told"]> => [{ sender: "agent/x", form: "chat", id: thread, text: "hello", thread }] as never;

const ITEMS: Item[] = [
  { rev: 1, at: 1, kind: "life", word: "began", text: "run 1 begins" },
  { rev: 2, at: 2, kind: "turn", turn: 1, reasons: ["start"], told: [] },
  { rev: 2, at: 2, kind: "said", text: "I begin." },
  { rev: 2, at: 2, kind: "call", call: "call/a", tool: "shell", arguments: { command: "x" } },
  { rev: 2, at: 2, kind: "verdict", call: "call/a", hook: "hook/h", point: "before-call", decision: "deny", reason: "no" },
  { rev: 2, at: 2, kind: "verdict", hook: "hook/h", point: "before-reply", decision: "allow", is_silent: true },
  { rev: 3, at: 3, kind: "waits", call: "call/a", why: "approval" },
  { rev: 4, at: 4, kind: "result", call: "call/a", state: "Denied", text: "hook h: no" },
  { rev: 4, at: 4, kind: "result", call: "call/a", state: "Denied", text: "" },
  { rev: 4, at: 4, kind: "ended", turn: 1, active_s: 0.1, calls: 1 },
  { rev: 5, at: 5, kind: "turn", turn: 2, reasons: ["message"], told: message("thread/1") },
];

describe("items grouped into turns", () => {
  const found = stretches(ITEMS);
  it("have verdicts and results at their call", () => {
    const turn = found[1];
    if (turn?.kind !== "turn") throw new Error("expected a turn");
    expect(turn.blocks.map((one) => one.kind)).toEqual(["said", "call"]);
    const call = turn.blocks[1];
    expect(call).toMatchObject({ tool: "shell", waits: "", result: { text: "hook h: no" } });
    expect(turn.ended?.active_s).toBe(0.1);
  });
  it("are filtered by thread", () => {
    expect(threadsOf(found)).toEqual(["thread/1"]);
    expect(ofThread(found, "thread/1").map((one) => one.key)).toEqual(["5.turn"]);
    expect(ofThread(found, "")).toHaveLength(3);
  });
  it("have the same keys in two pages", () => {
    const keys = stretches(ITEMS.slice(10)).map((one) => one.key);
    expect(found.map((one) => one.key)).toContain(keys[0]);
  });
});

describe("line diff", () => {
  it.each([
    ["a\nb\nc", "a\nx\nc", " a|-b|+x| c"],
    ["a", "a\nb", " a|+b"],
    ["a\nb", "", "-a|-b|+"],
    ["one\ntwo\nthree", "two\nthree\nfour", "-one| two| three|+four"],
    ["same", "same", " same"],
  ])("%j and %j", (before, after, wanted) => {
    expect(lineDiff(before, after).map((line) => line.sign + line.text).join("|")).toBe(wanted);
  });
  it("omits lines far from a change", () => {
    const long = Array.from({ length: 20 }, (_, at) => `line ${at}`);
    const other = long.map((line, at) => (at === 3 || at === 15 ? "new" : line));
    const found = hunks(lineDiff(long.join("\n"), other.join("\n")), 1);
    expect(found.map((one) => one.length)).toEqual([4, 4]);
  });
});
