import { options, type VNode } from "preact";
import { describe, expect, it } from "vitest";
import type { JsonObject, LogRecord, Resource } from "../src/log/record";
import { isWebAddress } from "../src/pages/approvals/QuestionForm";
import { count, duration, money } from "../src/words/amounts";
import { Costs } from "../src/words/budgets";
import { drawLegibly } from "../src/words/legible";
import { withCurrentHolders, callText, checksOf, stateOf, unblocksOf, whatOf } from "../src/words/objects";
import { stepsOf } from "../src/words/records";
import corpus from "./corpus/words.json";

interface Expected {
  object: Resource;
  state: string;
  checks: string;
  what: string;
  unblocks: string[];
  cost: string;
  short: string;
}

const OBJECTS = corpus.objects as unknown as Expected[];

function of(kind: string): Map<string, Resource> {
  const found = OBJECTS.map((one) => one.object).filter((one) => one.address.startsWith(`${kind}/`));
  return new Map(found.map((one) => [one.address, one]));
}

describe("drawn text", () => {
  it("escapes bidirectional control characters", () => {
    drawLegibly();
    const text = { type: null, props: "rm \u202etxt.a\u202c \u2067b\u2069 שלום" };
    options.vnode?.(text as unknown as VNode);
    expect(text.props).toBe("rm \\u202etxt.a\\u202c \\u2067b\\u2069 שלום");
  });
});

describe("an address from a tool server", () => {
  it.each([["https://a.example/x", true], ["HTTP://a.example", true], ["javascript:alert(1)//https://", false], [" https://a", false], ["vscode://x", false], ["//a.example", false]])("%s", (url, isLink) => {
    expect(isWebAddress(url)).toBe(isLink);
  });
});

describe("numbers have the same texts as on the command line", () => {
  it.each(corpus.duration as [number, string][])("%d seconds", (seconds, words) => expect(duration(seconds)).toBe(words));
  it.each(corpus.money as [number, string][])("%d dollars", (usd, words) => expect(money(usd)).toBe(words));
  it.each(corpus.count as [number, string][])("%d", (number, words) => expect(count(number)).toBe(words));
});

describe("objects have the same texts as on the command line", () => {
  const costs = new Costs(of("task"), of("agent"));
  it.each(OBJECTS.map((one) => [one.object.address, one] as const))("%s", (_, wanted) => {
    const item = wanted.object;
    expect(stateOf(item)).toBe(wanted.state);
    expect(checksOf(item)).toBe(wanted.checks);
    expect(whatOf(item)).toBe(wanted.what);
    expect(unblocksOf(item)).toEqual(wanted.unblocks);
    if (item.address.startsWith("task/")) {
      expect(costs.line(item)).toBe(wanted.cost);
      expect(costs.short(item)).toBe(wanted.short);
    }
  });

  it.each(corpus.by_now.map((one) => [one.said, one] as const))("%s", (said, { why, holders }) => {
    const lock = (path: string): Resource | undefined => {
      const held = (holders as unknown as JsonObject)[path];
      return held === undefined ? undefined : ({ address: `lock/${path}`, status: { holders: held } } as unknown as Resource);
    };
    expect(withCurrentHolders(why, lock)).toBe(said);
  });

  it.each(corpus.records.map((one) => [one.words.join(" | "), one] as const))("a record: %s", (_, { record, words }) => {
    expect(stepsOf(record as unknown as LogRecord).map((one) => one.words)).toEqual(words);
  });

  it.each(corpus.calls as unknown as [JsonObject, string][])("%o", (spec, words) => expect(callText(spec)).toBe(words));
});
