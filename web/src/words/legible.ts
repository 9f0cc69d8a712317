// Signs that turn the direction of writing make a text look like another one: a command that somebody is to approve,
// say. What agents and tools write may have them; they are shown as what they are, as on the command line.
//
// Not covered: attributes such as `title` and `aria-label`, the values of fields, and what is drawn without Preact. The
// plan's editor, which is such a thing, is told of the same signs.

import { options } from "preact";

export const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

export function legible(text: string): string {
  return text.replace(TURNING, (sign) => escaped(sign.charCodeAt(0)));
}

/** A sign by its number, such as `\u202e`. */
export function escaped(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}

/** From now on every text that is drawn is legible, whichever page draws it: Preact calls this for each. */
export function drawLegibly(): void {
  const before = options.vnode;
  options.vnode = (node) => {
    const own = node as { props: unknown }; // A text is a node whose props are that text.
    if (typeof own.props === "string") own.props = legible(own.props);
    before?.(node);
  };
}
