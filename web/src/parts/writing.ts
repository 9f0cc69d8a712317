// The words of a reply while a model writes them. Pure.

import type { components } from "../api-types";

export type Said = components["schemas"]["ChatSaid"];

export interface Writing {
  turn: number;
  reply: string;
  text: string;
}

/** What is known as a connection begins, which is told first what has come so far. */
export const SILENT: Writing = { turn: 0, reply: "", text: "" };

const SHOWN_CHARS = 8_000; // The newest; the whole reply comes as an item.

/** What is being written, after a stretch more of it, or after another reply has begun. */
export function heard(before: Writing, { turn, reply, text }: Said): Writing {
  return { turn, reply, text: ((before.reply === reply ? before.text : "") + text).slice(-SHOWN_CHARS) };
}
