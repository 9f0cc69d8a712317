// The loaded part of an output, a contiguous range of bytes. Pure.

export interface Output {
  /** The id of the output; empty if the server cannot return ranges of it. */
  log: string;
  /** The offset of `text` in bytes. */
  start: number;
  text: string;
}

const KEPT_CHARS = 512_000; // Above this, the page drops the oldest lines.

/** Returns the output with `text` appended. */
export function followed<O extends Output>(before: O, text: string): O {
  const whole = before.text + text;
  if (whole.length <= KEPT_CHARS) return { ...before, text: whole };
  const at = whole.length - KEPT_CHARS / 2;
  const cut = whole.indexOf("\n", at) + 1 || at;
  const dropped = before.log === "" ? 0 : new TextEncoder().encode(whole.slice(0, cut)).length;
  return { ...before, start: before.start + dropped, text: whole.slice(cut) };
}

/** Returns the output with the older `page` in front; unchanged if its start has moved since the page was requested. */
export function preceded<O extends Output>(now: O, asked: Output, page: Output): O {
  const isStill = now.log === asked.log && now.start === asked.start && page.log === now.log;
  return isStill ? { ...now, start: page.start, text: page.text + now.text } : now;
}
