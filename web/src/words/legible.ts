// Escapes bidirectional control characters, as the command line does. They can make a text look like another one, for
// example a command that a user is asked to approve, and agents and tools can write them.
//
// Not covered: attributes such as `title` and `aria-label`, the values of fields, and what is drawn without Preact. The
// plan's editor uses the same list of characters.

import { options } from "preact";

export const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;

export function legible(text: string): string {
  return text.replace(BIDI_CONTROLS, (character) => escaped(character.charCodeAt(0)));
}

/** Returns the escape of a character code, such as `\u202e`. */
export function escaped(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Makes Preact escape every text that it draws from now on. */
export function drawLegibly(): void {
  const before = options.vnode;
  options.vnode = (node) => {
    const own = node as { props: unknown }; // A text is a node whose props are that text.
    if (typeof own.props === "string") own.props = legible(own.props);
    before?.(node);
  };
}
