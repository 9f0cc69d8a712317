// What is known of an output, by bytes: the part of it that a person has, which fits together. Pure.

export interface Output {
  /** Which output it is; empty where bytes of it cannot be asked for. */
  log: string;
  /** The byte at which `text` begins. */
  start: number;
  text: string;
}

const KEPT_CHARS = 512_000; // Beyond this the oldest lines go, from the page alone.

/** What one has, with `text` behind it. */
export function followed<O extends Output>(before: O, text: string): O {
  const whole = before.text + text;
  if (whole.length <= KEPT_CHARS) return { ...before, text: whole };
  const at = whole.length - KEPT_CHARS / 2;
  const cut = whole.indexOf("\n", at) + 1 || at;
  const gone = before.log === "" ? 0 : new TextEncoder().encode(whole.slice(0, cut)).length;
  return { ...before, start: before.start + gone, text: whole.slice(cut) };
}

/** What one has, with the page before it; as it is when meanwhile it begins elsewhere than where that was asked for. */
export function preceded<O extends Output>(now: O, asked: Output, page: Output): O {
  const isStill = now.log === asked.log && now.start === asked.start && page.log === now.log;
  return isStill ? { ...now, start: page.start, text: page.text + now.text } : now;
}
