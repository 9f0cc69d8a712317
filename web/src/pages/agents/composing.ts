// A user's message to an agent, and the answer to it. Pure.

import { entries, type LogRecord } from "../../log/record";
import { map, text } from "../../words/objects";

export type Delivery = "queue" | "steer" | "interrupt";

export interface Draft {
  words: string;
  delivery: Delivery;
  asks: boolean;
}

/** A message with a key: the server ignores a second one with the same key. */
export interface Keyed extends Draft {
  key: string;
}

/**
 * Returns `draft` with a key. A message whose response was lost may have arrived: the same message gets the same key
 * again, so that sending it again does not deliver it twice.
 */
export function keyed(draft: Draft, unanswered: Keyed | null, fresh: () => string): Keyed {
  const isSame = unanswered?.words === draft.words && unanswered.delivery === draft.delivery && unanswered.asks === draft.asks;
  return { ...draft, key: isSame ? unanswered.key : fresh() };
}

export interface Answer {
  words: string;
  error: string;
}

/** Returns the answer to the message `id` if `records` contain it. */
export function answerIn(records: readonly LogRecord[], id: string): Answer | undefined {
  for (const record of records) {
    for (const one of entries(record)) {
      const found = map(one.data.answered)[id];
      if (found !== undefined) return { words: text(found), error: text(one.data.error) };
    }
  }
  return undefined;
}
