import { describe, expect, it } from "vitest";
import { fold } from "../src/log/fold";
import { applyOps, merge } from "../src/log/patching";
import type { LogRecord, Resource } from "../src/log/record";
import corpus from "./corpus/fold.json";

interface Step {
  record: LogRecord;
  after: Record<string, Resource | null>;
  addresses: string[];
}

/** Members that are not written when they are empty are the same as empty ones. */
function whole(item: Resource): object {
  const { refs = [], owner = null, finalizers = [], deleting = false, ...rest } = item;
  return { ...rest, kind: item.address.slice(0, item.address.indexOf("/")), refs, owner, finalizers, deleting };
}

describe("the fold", () => {
  it("gives the same objects as the product for every record", () => {
    const objects = new Map<string, Resource>();
    for (const { record, after, addresses } of corpus as unknown as Step[]) {
      const touched = fold(objects, record);
      expect([...touched].sort(), `touched by rev ${record.rev}`).toEqual(Object.keys(after));
      expect([...objects.keys()].sort(), `objects after rev ${record.rev}`).toEqual(addresses);
      for (const [address, wanted] of Object.entries(after)) {
        const found = objects.get(address);
        expect(found === undefined ? null : whole(found), `${address} after rev ${record.rev}`).toEqual(wanted);
      }
    }
  });

  it("does not change existing objects", () => {
    const objects = new Map<string, Resource>();
    const held = new Map<Resource, string>();
    for (const { record } of corpus as unknown as Step[]) {
      fold(objects, record);
      for (const [one, before] of held) expect(JSON.stringify(one)).toBe(before);
      for (const one of objects.values()) if (held.size < 200) held.set(one, JSON.stringify(one));
    }
    expect(held.size).toBe(200);
  });
});

describe("patches", () => {
  it("unescape names in pointers", () => {
    expect(applyOps({ "a/b": 1, "m~n": 2 }, [{ op: "replace", path: "/a~1b", value: 3 }, { op: "remove", path: "/m~0n" }])).toEqual({ "a/b": 3 });
  });

  it("merge maps, replace lists and remove null members", () => {
    expect(merge({ a: { b: 1, c: 2 }, d: [1, 2] }, { a: { b: null }, d: [3] })).toEqual({ a: { c: 2 }, d: [3] });
  });

  it("treat names such as __proto__ like any other", () => {
    const once = merge({}, JSON.parse('{"__proto__": {"a": 1}, "constructor": {"b": 2}}'));
    const twice = merge(once, JSON.parse('{"__proto__": {"c": 3}, "constructor": null, "toString": {"d": null}}'));
    expect(JSON.stringify(once)).toBe('{"__proto__":{"a":1},"constructor":{"b":2}}');
    expect(JSON.stringify(twice)).toBe('{"__proto__":{"a":1,"c":3},"toString":{}}');
    expect(JSON.stringify(merge(twice, JSON.parse('{"__proto__": null}')))).toBe('{"toString":{}}');
  });
});
