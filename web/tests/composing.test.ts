import { expect, it } from "vitest";
import type { LogRecord } from "../src/log/record";
import { answerIn, keyed } from "../src/pages/agents/composing";

const draft = { words: "go on", delivery: "queue", asks: false } as const;

it("keeps the key of an unchanged message while its delivery is unknown", () => {
  const first = keyed(draft, null, () => "a");
  expect(keyed(draft, first, () => "b").key).toBe("a");
  expect(keyed({ ...draft, words: "go on!" }, first, () => "b").key).toBe("b");
  expect(keyed({ ...draft, asks: true }, first, () => "b").key).toBe("b");
  expect(keyed(draft, null, () => "b").key).toBe("b");
});

it("finds the answer to a message in the records", () => {
  const records = [
    { rev: 7, data: {}, also: [] },
    { rev: 8, data: {}, also: [{ data: { answered: { m1: "half of it" } } }] },
  ] as unknown as LogRecord[];
  expect(answerIn(records, "m1")).toEqual({ words: "half of it", error: "" });
  expect(answerIn(records, "m2")).toBeUndefined();
});
