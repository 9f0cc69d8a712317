import { expect, it } from "vitest";
import { added } from "../src/pages/plan/printed";

const first = { log: "a-1", start: 0, next: 4, text: "one\n" };

it("appends the following page", () => {
  expect(added(first, { log: "a-1", start: 4, next: 8, text: "two\n" })).toEqual({ log: "a-1", start: 0, next: 8, text: "one\ntwo\n" });
});

it("starts again with another run or a page that does not follow", () => {
  const other = { log: "a-2", start: 4, next: 8, text: "two\n" };
  expect(added(first, other)).toEqual(other);
  const newest = { log: "a-1", start: 900, next: 904, text: "end\n" };
  expect(added(first, newest)).toEqual(newest);
});

it("keeps the newest lines of a long output, and knows their offset", () => {
  const line = `${"ü".repeat(499)}\n`; // 999 bytes
  const much = added({ ...first, next: 0, text: "" }, { log: "a-1", start: 0, next: 999 * 1_100, text: line.repeat(1_100) });
  expect(much.text.length).toBeLessThan(300_000);
  expect(much.text.startsWith("ü")).toBe(true);
  expect(much.start).toBe(999 * (1_100 - much.text.length / 500));
});
