// What a person sends to an agent, and the answer to it. Pure.

import { entries, type LogRecord } from "../../log/record";
import { map, text } from "../../words/objects";

export type Delivery = "queue" | "steer" | "interrupt";

export interface Draft {
  words: string;
  delivery: Delivery;
  asks: boolean;
}

/** A message on its way: of two with one key the second changes nothing. */
export interface Keyed extends Draft {
  key: string;
}

/**
 * `draft` with its key. What was sent before without an answer may have arrived: the very same has the same key again,
 * so that whoever presses once more does not say it twice.
 */
export function keyed(draft: Draft, unanswered: Keyed | null, fresh: () => string): Keyed {
  const isSame = unanswered?.words === draft.words && unanswered.delivery === draft.delivery && unanswered.asks === draft.asks;
  return { ...draft, key: isSame ? unanswered.key : fresh() };
}

export interface Answer {
  words: string;
  error: string;
}

/** The answer to the message `id`, if one of `records` tells it. */
export function answerIn(records: readonly LogRecord[], id: string): Answer | undefined {
  for (const record of records) {
    for (const one of entries(record)) {
      const found = map(one.data.answered)[id];
      if (found !== undefined) return { words: text(found), error: text(one.data.error) };
    }
  }
  return undefined;
}
