import { expect, it } from "vitest";
import { NOTHING as NO_LOG, withFrame as withLogFrame } from "../src/pages/containers/logs";
import { connecting, type Frame, lost, NOTHING as NO_TALK, withFrame } from "../src/pages/containers/talk";
import { type Item, keysOf, newest } from "../src/parts/items";
import { followed, preceded } from "../src/parts/output";
import { NO_TEXT, withPart } from "../src/parts/writing";

const part = (reply: string, text: string) => ({ agent: "agent/a", turn: 1, reply, text });
const item = (rev: number, kind: Item["kind"] = "said"): Item => ({ rev, at: rev, kind, text: `at ${rev}` });

it("joins the parts of a reply, and starts again with another reply of the same turn", () => {
  const once = withPart(withPart(NO_TEXT, part("a@1.1.1", "once ")), part("a@1.1.1", "upon"));
  expect(once.text).toBe("once upon");
  expect(withPart(once, part("a@1.1.2", "again")).text).toBe("again");
});

it("shows the text once after a reconnection, which sends it from the start", () => {
  const before = withFrame(NO_TALK, { said: part("a@1.1.1", "once ") }, "agent/a");
  expect(withFrame(connecting(before), { said: part("a@1.1.1", "once upon") }, "agent/a").writing.text).toBe("once upon");
});

it("gives an item the same key wherever the list starts", () => {
  const items = [item(4), item(5), item(5), item(6)];
  expect(keysOf(items)).toEqual(["4.0", "5.0", "5.1", "6.0"]);
  expect(keysOf(newest(items, 2))).toEqual(["5.0", "5.1", "6.0"]);
  expect(newest(items, 9)).toBe(items);
});

it("marks a conversation as cut when it drops its oldest items", () => {
  const first = withFrame(NO_TALK, { agent: "agent/a", items: [item(1)], earlier: false }, "agent/a");
  expect(first.isCut).toBe(false);
  const many = withFrame(first, { items: Array.from({ length: 1_000 }, (_, at) => item(at + 2)) }, "agent/a");
  expect([many.isCut, many.items.length, many.items[0]?.rev]).toEqual([true, 1_000, 2]);
});

it("reports the result of a sent message", () => {
  const pending = { ...NO_TALK, pending: { id: "1", text: "how is it?" } };
  const sent = withFrame(pending, { sent: { id: "1", message: "m", state: "asleep" } }, "agent/a");
  expect([sent.pending, sent.news]).toEqual([null, "Sent. agent/a is asleep."]);
  const answered: Frame = { answered: { question: "m", text: "well", error: "" } };
  expect(withFrame(sent, answered, "agent/a").news).toBe("agent/a answered: well");
  expect(withFrame(NO_TALK, answered, "agent/a").news).toBe("");
  expect(lost(pending)).toMatchObject({ pending: null, error: { hint: expect.stringContaining("Send it again") } });
});

it("adds an older page to an output only once", () => {
  const now = { log: "a", start: 900, text: "end\n" };
  const page = { log: "a", start: 500, text: "middle\n" };
  const whole = preceded(now, now, page);
  expect(whole).toEqual({ log: "a", start: 500, text: "middle\nend\n" });
  expect(preceded(whole, now, page)).toBe(whole);
  expect(preceded({ log: "b", start: 900, text: "" }, now, page).text).toBe("");
});

it("knows the start of a log after its oldest lines were dropped, and marks it as cut if the start is unknown", () => {
  const line = `${"x".repeat(999)}\n`;
  const empty = withLogFrame(NO_LOG, { log: "a", start: 7, text: "" });
  const long = withLogFrame(empty, { text: line.repeat(600) });
  expect([long.start - 7, long.isCut]).toEqual([600_000 - long.text.length, false]);
  expect(withLogFrame(NO_LOG, { log: "", text: "end", left: 9 }).isCut).toBe(true);
  const unknown = withLogFrame(withLogFrame(NO_LOG, { log: "", text: "" }), { text: line.repeat(600) });
  expect([unknown.start, unknown.isCut]).toEqual([0, true]);
  expect(followed({ log: "a", start: 0, text: "a" }, "b").text).toBe("ab");
});
