// Syntax highlighting for EDN.

import type { StringStream } from "@codemirror/language";

interface State {
  isInText: boolean;
}

export const edn = {
  name: "edn",
  startState: (): State => ({ isInText: false }),
  token(stream: StringStream, state: State): string | null {
    if (state.isInText) return text(stream, state);
    if (stream.eatSpace()) return null;
    if (stream.match(/^;.*/)) return "comment";
    if (stream.eat('"')) {
      state.isInText = true;
      return text(stream, state);
    }
    if (stream.match(/^:[^\s()[\]{}",;]+/)) return "propertyName";
    if (stream.match(/^[-+]?\d[\w./]*/)) return "number";
    if (stream.match(/^(?:true|false|nil)(?![^\s()[\]{}",;])/)) return "bool";
    if (stream.match(/^[^\s()[\]{}",;:]+/)) return "keyword";
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: ";" } },
};

function text(stream: StringStream, state: State): string {
  for (let letter = stream.next(); letter; letter = stream.next()) {
    if (letter === "\\") stream.next();
    else if (letter === '"') {
      state.isInText = false;
      break;
    }
  }
  return "string";
}
