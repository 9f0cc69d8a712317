// Items of a conversation as turns, each with what was told, said, called and got back. Pure.

import { type Item, keysOf, type Told } from "../../parts/items";

export type { Item, Told };

export interface Call {
  kind: "call";
  key: string;
  address: string;
  tool: string;
  arguments: Record<string, unknown>;
  fault: string;
  at: number;
  verdicts: Item[];
  /** Why it waits; empty when it does not. */
  waits: string;
  result: Item | undefined;
}

export type Block = Call | { kind: "said" | "failed" | "verdict"; key: string; item: Item };

export interface Turn {
  /** The revision at which it began: no two turns have one. */
  key: string;
  kind: "turn";
  rev: number;
  at: number;
  number: number;
  reasons: string[];
  told: Told[];
  blocks: Block[];
  /** How it ended; undefined while it goes on. */
  ended: Item | undefined;
}

export interface Life {
  key: string;
  kind: "life";
  rev: number;
  at: number;
  word: string;
  text: string;
}

export type Stretch = Turn | Life;

/** The items, in order, as turns and what was between them. */
export function stretches(items: readonly Item[]): Stretch[] {
  const found: Stretch[] = [];
  const calls = new Map<string, Call>();
  let turn: Turn | undefined;
  const keys = keysOf(items);
  items.forEach((item, index) => {
    const key = keys[index] as string;
    switch (item.kind) {
      case "turn":
        turn = begun(item);
        found.push(turn);
        return;
      case "life":
        found.push({ key: `${item.rev}.${item.word ?? ""}`, kind: "life", rev: item.rev, at: item.at, word: item.word ?? "", text: item.text ?? "" });
        return;
      case "ended":
        if (turn !== undefined) turn.ended = item;
        return;
      case "call": {
        const call = made(item);
        calls.set(call.address, call);
        turn?.blocks.push(call);
        return;
      }
      case "waits": {
        const call = calls.get(item.call ?? "");
        if (call !== undefined) call.waits = item.why ?? "";
        return;
      }
      case "result": {
        const call = calls.get(item.call ?? "");
        // Of two words about one end the one with a text says more.
        if (call !== undefined && !(call.result?.text && !item.text)) Object.assign(call, { result: item, waits: "" });
        return;
      }
      case "verdict": {
        const call = calls.get(item.call ?? "");
        if (call !== undefined) call.verdicts.push(item);
        else if (!item.is_silent) turn?.blocks.push({ kind: "verdict", key, item });
        return;
      }
      default:
        turn?.blocks.push({ kind: item.kind, key, item });
    }
  });
  return found;
}

function begun(item: Item): Turn {
  return {
    key: `${item.rev}.turn`,
    kind: "turn",
    rev: item.rev,
    at: item.at,
    number: item.turn ?? 0,
    reasons: item.reasons ?? [],
    told: item.told ?? [],
    blocks: [],
    ended: undefined,
  };
}

function made(item: Item): Call {
  return {
    kind: "call",
    key: item.call ?? "",
    address: item.call ?? "",
    tool: item.tool ?? "",
    arguments: item.arguments ?? {},
    fault: item.fault ?? "",
    at: item.at,
    verdicts: [],
    waits: "",
    result: undefined,
  };
}

/** The threads that messages belong to, in the order in which they came up. */
export function threadsOf(found: readonly Stretch[]): string[] {
  return [...new Set(found.flatMap((one) => (one.kind === "turn" ? one.told.flatMap((told) => told.thread ?? []) : [])))].filter(Boolean);
}

/** Only the turns that read a message of `thread`; all of them for an empty one. */
export function ofThread(found: readonly Stretch[], thread: string): Stretch[] {
  if (thread === "") return [...found];
  return found.filter((one) => one.kind === "turn" && one.told.some((told) => told.thread === thread));
}
