// Groups the items of a conversation into turns, each with its messages, replies, calls and results. Pure.

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
  /** What it waits for; empty if it does not wait. */
  waits: string;
  result: Item | undefined;
}

export type Block = Call | { kind: "said" | "failed" | "verdict"; key: string; item: Item };

export interface Turn {
  /** The revision at which it started, which is unique. */
  key: string;
  kind: "turn";
  rev: number;
  at: number;
  number: number;
  reasons: string[];
  messages: Told[];
  blocks: Block[];
  /** Its end; undefined while it runs. */
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

/** Groups the items, in order, into turns and the items between them. */
export function stretches(items: readonly Item[]): Stretch[] {
  const found: Stretch[] = [];
  const calls = new Map<string, Call>();
  let turn: Turn | undefined;
  const keys = keysOf(items);
  items.forEach((item, index) => {
    const key = keys[index] as string;
    switch (item.kind) {
      case "turn":
        turn = turnOf(item);
        found.push(turn);
        return;
      case "life":
        found.push({ key: `${item.rev}.${item.word ?? ""}`, kind: "life", rev: item.rev, at: item.at, word: item.word ?? "", text: item.text ?? "" });
        return;
      case "ended":
        if (turn !== undefined) turn.ended = item;
        return;
      case "call": {
        const call = callOf(item);
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
        // A call can have two results: keep the one with a text.
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

function turnOf(item: Item): Turn {
  return {
    key: `${item.rev}.turn`,
    kind: "turn",
    rev: item.rev,
    at: item.at,
    number: item.turn ?? 0,
    reasons: item.reasons ?? [],
    messages: item.told ?? [],
    blocks: [],
    ended: undefined,
  };
}

function callOf(item: Item): Call {
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

/** Returns the threads of the messages, in order of their first message. */
export function threadsOf(found: readonly Stretch[]): string[] {
  return [...new Set(found.flatMap((one) => (one.kind === "turn" ? one.messages.flatMap((message) => message.thread ?? []) : [])))].filter(Boolean);
}

/** Returns the turns that read a message of `thread`; all turns if it is empty. */
export function ofThread(found: readonly Stretch[], thread: string): Stretch[] {
  if (thread === "") return [...found];
  return found.filter((one) => one.kind === "turn" && one.messages.some((message) => message.thread === thread));
}
