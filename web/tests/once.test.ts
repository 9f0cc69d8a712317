import { expect, it } from "vitest";
import { oneAtATime } from "../src/once";

it("runs once more for calls during a run, never two at a time", async () => {
  const open: (() => void)[] = [];
  let underWay = 0;
  let most = 0;
  const ask = oneAtATime(async () => {
    underWay += 1;
    most = Math.max(most, underWay);
    await new Promise<void>((done) => open.push(done));
    underWay -= 1;
  });
  const first = ask();
  void ask();
  void ask();
  open[0]?.();
  await expect.poll(() => open.length).toBe(2);
  open[1]?.();
  await first;
  expect([open.length, most]).toEqual([2, 1]);
});

it("runs again after a failure", async () => {
  let count = 0;
  const ask = oneAtATime(async () => {
    count += 1;
    if (count === 1) throw new Error("once");
  });
  await expect(ask()).rejects.toThrow("once");
  await ask();
  expect(count).toBe(2);
});

it("resolves for all callers, and rejects only if the last run failed", async () => {
  const open: (() => void)[] = [];
  const ask = oneAtATime(async () => {
    const isFirst = open.length === 0;
    await new Promise<void>((done) => open.push(done));
    if (isFirst) throw new Error("replaced by the next run");
  });
  const asked = [ask(), ask()];
  open[0]?.();
  await expect.poll(() => open.length).toBe(2);
  open[1]?.();
  await Promise.all(asked);
});
