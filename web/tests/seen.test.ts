import { expect, it } from "vitest";
import type { LogRecord } from "../src/log/record";
import { withRecords } from "../src/pages/agents/seen";

function record(rev: number, subject: string): LogRecord {
  return { v: 1, rev, at: rev, type: "x", actor: "controller:agent", epoch: 1, subject, data: {}, changes: [] };
}

const NONE = { agent: "agent/a", log: "l", upTo: 0, newest: 0 };

it("finds the newest record that names the agent, and reads none twice", () => {
  const first = withRecords([record(7, "agent/a"), record(8, "agent/b")], NONE);
  expect([first.upTo, first.newest]).toEqual([8, 7]);
  const then = withRecords([record(7, "agent/a"), record(8, "agent/a"), record(9, "agent/b")], first);
  expect([then.upTo, then.newest]).toEqual([9, 7]);
});

it("assumes that records that were dropped unread concern the agent", () => {
  const before = { ...NONE, upTo: 10, newest: 10 };
  expect(withRecords([record(500, "agent/b"), record(501, "agent/b")], before).newest).toBe(501);
});
