import { expect, it } from "vitest";
import { logged, NOTHING as NO_LOG } from "../src/pages/containers/logs";
import { connecting, type Frame, lost, NOTHING as SILENCE, told } from "../src/pages/containers/talk";
import { type Item, keysOf, newest } from "../src/parts/items";
import { followed, preceded } from "../src/parts/output";
import { heard, SILENT } from "../src/parts/writing";

const said = (reply: string, text: string) => ({ agent: "agent/a", turn: 1, reply, text });
const item = (rev: number, kind: Item["kind"] = "said"): Item => ({ rev, at: rev, kind, text: `at ${rev}` });

it("joins the stretches of a reply and begins anew with another, in the same turn too", () => {
  const once = heard(heard(SILENT, said("a@1.1.1", "once ")), said("a@1.1.1", "upon"));
  expect(once.text).toBe("once upon");
  expect(heard(once, said("a@1.1.2", "anew")).text).toBe("anew");
});

it("has what was written once after a connection that was made anew, which tells it from the start", () => {
  const before = told(SILENCE, { said: said("a@1.1.1", "once ") }, "agent/a");
  expect(told(connecting(before), { said: said("a@1.1.1", "once upon") }, "agent/a").writing.text).toBe("once upon");
});

it("names an item the same wherever the list begins", () => {
  const items = [item(4), item(5), item(5), item(6)];
  expect(keysOf(items)).toEqual(["4.0", "5.0", "5.1", "6.0"]);
  expect(keysOf(newest(items, 2))).toEqual(["5.0", "5.1", "6.0"]);
  expect(newest(items, 9)).toBe(items);
});

it("says that a talk is cut when it drops its oldest items", () => {
  const first = told(SILENCE, { agent: "agent/a", items: [item(1)], earlier: false }, "agent/a");
  expect(first.isCut).toBe(false);
  const many = told(first, { items: Array.from({ length: 1_000 }, (_, at) => item(at + 2)) }, "agent/a");
  expect([many.isCut, many.items.length, many.items[0]?.rev]).toEqual([true, 1_000, 2]);
});

it("settles what was said by what became of it", () => {
  const pending = { ...SILENCE, pending: { id: "1", text: "how is it?" } };
  const sent = told(pending, { sent: { id: "1", message: "m", state: "asleep" } }, "agent/a");
  expect([sent.pending, sent.news]).toEqual([null, "said; agent/a is asleep"]);
  const answered: Frame = { answered: { question: "m", text: "well", error: "" } };
  expect(told(sent, answered, "agent/a").news).toBe("agent/a answers: well");
  expect(told(SILENCE, answered, "agent/a").news).toBe("");
  expect(lost(pending)).toMatchObject({ pending: null, error: { summary: "the connection went before it was known whether that was said" } });
});

it("puts an older page before an output once, however often it was asked for", () => {
  const now = { log: "a", start: 900, text: "end\n" };
  const page = { log: "a", start: 500, text: "middle\n" };
  const whole = preceded(now, now, page);
  expect(whole).toEqual({ log: "a", start: 500, text: "middle\nend\n" });
  expect(preceded(whole, now, page)).toBe(whole);
  expect(preceded({ log: "b", start: 900, text: "" }, now, page).text).toBe("");
});

it("knows the byte at which a log begins after its oldest lines went, and says when nobody knows it", () => {
  const line = `${"x".repeat(999)}\n`;
  const begun = logged(NO_LOG, { log: "a", start: 7, text: "" });
  const much = logged(begun, { text: line.repeat(600) });
  expect([much.start - 7, much.isCut]).toEqual([600_000 - much.text.length, false]);
  expect(logged(NO_LOG, { log: "", text: "end", left: 9 }).isCut).toBe(true);
  const unknown = logged(logged(NO_LOG, { log: "", text: "" }), { text: line.repeat(600) });
  expect([unknown.start, unknown.isCut]).toEqual([0, true]);
  expect(followed({ log: "a", start: 0, text: "a" }, "b").text).toBe("ab");
});
