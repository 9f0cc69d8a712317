// The loaded conversation with the agent that works with a container. Pure.

import type { components } from "../../api-types";
import { type Item, newest } from "../../parts/items";
import type { Shown } from "../../parts/Problem";
import { NO_TEXT, withPart, type Writing } from "../../parts/writing";

type Whole = components["schemas"]["ChatFrame"];
export type Frame = Partial<Omit<Whole, "items">> & { items?: Item[] };

export interface Message {
  id: string;
  text: string;
}

export interface Talk {
  items: readonly Item[];
  /** Whether there are older items. */
  isCut: boolean;
  writing: Writing;
  /** Why the conversation ended; empty while it continues. */
  ended: string;
  /** The result of the user's last message. */
  news: string;
  error: Shown | null;
  /** A message that the server has not confirmed. */
  pending: Message | null;
  /** The messages that have no answer yet. */
  asked: readonly string[];
}

export const NOTHING: Talk = { items: [], isCut: false, writing: NO_TEXT, ended: "", news: "", error: null, pending: null, asked: [] };

const COMPLETE: readonly string[] = ["said", "call", "ended", "failed"]; // These items end a reply.
const KEPT = 1_000; // Items; the agent's page has all of them.

/** Returns the conversation with `agent` after a frame. */
export function withFrame(talk: Talk, frame: Frame, agent: string): Talk {
  const next = frame.items ? withItems(talk, frame, frame.items) : talk;
  const { said, ended, sent, refused, answered } = frame;
  if (said) return { ...next, writing: withPart(next.writing, said) };
  if (ended) return { ...next, ended: `The conversation has ended: ${ended.container} is ${ended.state}${ended.why && `: ${ended.why}`}` };
  if (sent) return { ...next, pending: null, asked: [...next.asked, sent.message], news: `Sent. ${agent} is ${sent.state}.` };
  if (refused) return { ...next, pending: null, error: { summary: refused.summary, hint: refused.hint } };
  if (answered && next.asked.includes(answered.question)) {
    return { ...next, news: answered.error ? `${agent} did not answer (${answered.error}): ${answered.text}` : `${agent} answered: ${answered.text}` };
  }
  return next;
}

/** Adds the items of a frame. The first frame of a connection has all items, later ones the new items. */
function withItems(talk: Talk, frame: Frame, more: readonly Item[]): Talk {
  if (frame.agent) return { ...talk, items: more, isCut: frame.earlier ?? false, ended: "" };
  const all = [...talk.items, ...more];
  const items = newest(all, KEPT);
  const writing = more.some((item) => COMPLETE.includes(item.kind)) ? { ...talk.writing, text: "" } : talk.writing;
  return { ...talk, items, writing, isCut: talk.isCut || items.length < all.length };
}

/** Returns the conversation when a connection starts: the server sends the current reply from its start. */
export function connecting(talk: Talk): Talk {
  return { ...talk, writing: NO_TEXT };
}

/** Returns the conversation after the connection was lost. */
export function lost(talk: Talk): Talk {
  if (talk.pending === null) return talk;
  const error = { summary: "The connection was lost before the server confirmed your message.", hint: "Send it again if it is not in the conversation." };
  return { ...talk, pending: null, error };
}
