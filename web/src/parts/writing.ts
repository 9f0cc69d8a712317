// The text of a reply while the model writes it. Pure.

import type { components } from "../api-types";

export type Said = components["schemas"]["ChatSaid"];

export interface Writing {
  turn: number;
  reply: string;
  text: string;
}

/** No text. A new connection starts here, and first gets the text so far. */
export const NO_TEXT: Writing = { turn: 0, reply: "", text: "" };

const SHOWN_CHARS = 8_000; // The newest; the whole reply comes as an item.

/** Returns the text after the next part of the reply, or after the start of another reply. */
export function withPart(before: Writing, { turn, reply, text }: Said): Writing {
  return { turn, reply, text: ((before.reply === reply ? before.text : "") + text).slice(-SHOWN_CHARS) };
}
