import { beforeEach, describe, expect, it, vi } from "vitest";
import { fold } from "../src/log/fold";
import type { LogRecord, Resource } from "../src/log/record";

const LAST = 2_500;
const PAGE = 300; // The server may return fewer records than requested.

/** A log in which every revision writes its number into one of three tasks. */
const LOG = Array.from({ length: LAST }, (_, at): LogRecord => {
  const rev = at + 1;
  const task = `task/${rev % 3}`;
  const first = rev <= 3;
  return {
    v: 1, rev, at: 1000 + rev, type: "task.changed", actor: "controller:task", epoch: 1, subject: task, data: {},
    changes: [first ? { put: task, uid: task, spec: {}, with: { n: rev } } : { status: task, uid: task, merge: { n: rev } }],
  };
});

function folded(rev: number): Map<string, Resource> {
  const objects = new Map<string, Resource>();
  for (const record of LOG.slice(0, rev)) fold(objects, record);
  return objects;
}

const asked: string[] = [];

async function server(path: string): Promise<{ ok: boolean; json(): Promise<unknown> }> {
  asked.push(path);
  const url = new URL(path, "http://here");
  const at = Number(url.searchParams.get("at"));
  const after = Number(url.searchParams.get("after"));
  const limit = Math.min(PAGE, Number(url.searchParams.get("limit")));
  const body = url.pathname.endsWith("/log")
    ? { rev: LAST, records: LOG.slice(after, after + limit) }
    : paged([...folded(at).values()], at, url.searchParams.get("from") ?? "");
  return { ok: true, json: async () => body };
}

/** Two objects a page. */
function paged(all: Resource[], rev: number, from: string): object {
  const rest = all.filter((one) => one.address > from).sort((a, b) => (a.address < b.address ? -1 : 1));
  return { rev, log: "log", objects: rest.slice(0, 2), next: rest.length > 2 ? rest[1]?.address : null };
}

vi.stubGlobal("location", { hash: "", pathname: "/", search: "" });
vi.stubGlobal("localStorage", { getItem: () => "token" });
vi.stubGlobal("fetch", server);
const { Past } = await import("../src/log/past");

beforeEach(() => {
  asked.length = 0;
});

describe("the past", () => {
  it.each([1, 2, 999, 1000, 1001, 1999, 2000, 2400, LAST])("has the objects of revision %d", async (rev) => {
    const found = await new Past().at(rev);
    expect(found.rev).toBe(rev);
    expect(found.at).toBe(1000 + rev);
    expect(found.objects).toEqual(folded(rev));
    expect(found.records.at(-1)?.rev).toBe(rev);
  });

  it("requests nothing twice while the user goes back and forth", async () => {
    const past = new Past();
    await past.at(2400);
    const before = asked.length;
    for (const rev of [2399, 2001, 2350, 2400]) expect((await past.at(rev)).objects).toEqual(folded(rev));
    expect(asked.length).toBe(before);
  });

  it("reads a stretch once for concurrent requests", async () => {
    const past = new Past();
    const found = await Promise.all([1500, 1200, 1900, 1500].map((rev) => past.at(rev)));
    expect(found.map((one) => one.rev)).toEqual([1500, 1200, 1900, 1500]);
    for (const one of found) expect(one.objects).toEqual(folded(one.rev));
    expect(new Set(asked).size).toBe(asked.length);
  });

  it("does not share objects between two revisions", async () => {
    const past = new Past();
    const early = await past.at(1100);
    const copy = structuredClone([...early.objects]);
    await past.at(1800);
    expect([...early.objects]).toEqual(copy);
  });
});
