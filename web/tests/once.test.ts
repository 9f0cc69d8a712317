import { expect, it } from "vitest";
import { oneAtATime } from "../src/once";

it("does what is asked for meanwhile once more, never two at a time", async () => {
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

it("goes on after a step that failed", async () => {
  let count = 0;
  const ask = oneAtATime(async () => {
    count += 1;
    if (count === 1) throw new Error("once");
  });
  await expect(ask()).rejects.toThrow("once");
  await ask();
  expect(count).toBe(2);
});

it("tells all who asked when it is done, and of a fault only when nothing was done after it", async () => {
  const open: (() => void)[] = [];
  const ask = oneAtATime(async () => {
    const isFirst = open.length === 0;
    await new Promise<void>((done) => open.push(done));
    if (isFirst) throw new Error("made up for");
  });
  const asked = [ask(), ask()];
  open[0]?.();
  await expect.poll(() => open.length).toBe(2);
  open[1]?.();
  await Promise.all(asked);
});
