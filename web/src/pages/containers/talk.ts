// What is known of a conversation with the agent that works with a container, frame by frame. Pure.

import type { components } from "../../api-types";
import { type Item, newest } from "../../parts/items";
import type { Fault } from "../../parts/Problem";
import { heard, SILENT, type Writing } from "../../parts/writing";

type Whole = components["schemas"]["ChatFrame"];
export type Frame = Partial<Omit<Whole, "items">> & { items?: Item[] };

export interface Message {
  id: string;
  text: string;
}

export interface Talk {
  items: readonly Item[];
  /** Whether something was before them. */
  isCut: boolean;
  writing: Writing;
  /** Why nothing more comes; empty while something may. */
  ended: string;
  /** What became of what a person said last. */
  news: string;
  error: Fault | null;
  /** What was said and is not known to have arrived. */
  pending: Message | null;
  /** The messages whose answers are waited for. */
  asked: readonly string[];
}

export const NOTHING: Talk = { items: [], isCut: false, writing: SILENT, ended: "", news: "", error: null, pending: null, asked: [] };

const WHOLE: readonly string[] = ["said", "call", "ended", "failed"]; // After these nothing more of a reply comes.
const KEPT = 1_000; // Items; the agent's own page has all of them.

/** What is known after a frame of the conversation with `agent`. */
export function told(talk: Talk, frame: Frame, agent: string): Talk {
  const next = frame.items ? lived(talk, frame, frame.items) : talk;
  const { said, ended, sent, refused, answered } = frame;
  if (said) return { ...next, writing: heard(next.writing, said) };
  if (ended) return { ...next, ended: `${ended.container} is ${ended.state}${ended.why && `: ${ended.why}`}; the conversation ends with it` };
  if (sent) return { ...next, pending: null, asked: [...next.asked, sent.message], news: `said; ${agent} is ${sent.state}` };
  if (refused) return { ...next, pending: null, error: { summary: refused.summary, hint: refused.hint } };
  if (answered && next.asked.includes(answered.question)) {
    return { ...next, news: answered.error ? `${agent} could not answer (${answered.error}): ${answered.text}` : `${agent} answers: ${answered.text}` };
  }
  return next;
}

/** The first frame of a connection has what there is, each other one what came. */
function lived(talk: Talk, frame: Frame, more: readonly Item[]): Talk {
  if (frame.agent) return { ...talk, items: more, isCut: frame.earlier ?? false, ended: "" };
  const all = [...talk.items, ...more];
  const items = newest(all, KEPT);
  const writing = more.some((item) => WHOLE.includes(item.kind)) ? { ...talk.writing, text: "" } : talk.writing;
  return { ...talk, items, writing, isCut: talk.isCut || items.length < all.length };
}

/** What is known as a connection begins: it tells anew what is being written. */
export function connecting(talk: Talk): Talk {
  return { ...talk, writing: SILENT };
}

/** What is known once the connection is gone. */
export function lost(talk: Talk): Talk {
  if (talk.pending === null) return talk;
  const error = { summary: "the connection went before it was known whether that was said", hint: "look at the conversation, then say it again if it is not there" };
  return { ...talk, pending: null, error };
}
