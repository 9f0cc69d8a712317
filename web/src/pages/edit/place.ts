// Finds the path of keys at the cursor in a YAML text. It uses only indentation and brackets, so that it also works in an
// incomplete text. `-` is an item of a list.

export interface YamlPlace {
  /** Keys from the top to the map or value that the cursor is in. */
  path: string[];
  /** Whether a key can be typed here, or a value of the last key of `path`. An item of a list can be either. */
  isKey: boolean;
  isValue: boolean;
  /** The typed part of the key or value, and the column where it starts, from 0. */
  word: string;
  column: number;
}

interface Line {
  /** Columns of the dashes at its start. */
  dashes: number[];
  /** The key at its start, and its column. */
  key: string | undefined;
  keyColumn: number;
  /** The text after the key or the dashes. */
  rest: string;
  restColumn: number;
}

const KEY = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#:{}[\],&*!|>'"%@`-][^:#{}[\],]*?|-[^\s:#][^:#]*?)\s*:(?=\s|$)/;
const BLOCK_TEXT = /(?:^|\s)[|>][-+0-9]*\s*(?:#.*)?$/;

/** Returns the place at `column` (from 0) of line `row` (from 0); undefined in comments and block texts. */
export function placeAt(lines: readonly string[], row: number, column: number): YamlPlace | undefined {
  const before = (lines[row] ?? "").slice(0, column);
  if (isComment(before)) return undefined;
  const line = read(before);
  const isBlank = before.trim() === "";
  const own = line.key !== undefined ? line.keyColumn : isBlank ? column : line.restColumn;
  const above = around(lines, row, line.dashes[0] ?? own, line.dashes.length > 0);
  if (above === undefined) return undefined;
  const path = [...above, ...line.dashes.map(() => "-")];
  if (line.key !== undefined) path.push(line.key);
  return inFlow(line, path);
}

/** Returns the path of the key at `column` of line `row`; undefined if there is no key. */
export function keyAt(lines: readonly string[], row: number, column: number): { path: string[]; from: number; to: number } | undefined {
  const text = lines[row] ?? "";
  const found = /[\w-]+(?=["']?\s*:)/g;
  for (let match = found.exec(text); match !== null; match = found.exec(text)) {
    const [from, to] = [match.index, match.index + match[0].length];
    if (column < from || column > to) continue;
    const place = placeAt(lines, row, from);
    return place?.isKey ? { path: [...place.path, match[0]], from, to } : undefined;
  }
  return undefined;
}

function read(text: string): Line {
  const dashes: number[] = [];
  let at = text.length - text.trimStart().length;
  while (text[at] === "-" && (at + 1 === text.length || text[at + 1] === " ")) {
    dashes.push(at);
    at += 1;
    while (text[at] === " ") at += 1;
  }
  const key = KEY.exec(text.slice(at));
  if (key === null) return { dashes, key: undefined, keyColumn: at, rest: text.slice(at), restColumn: at };
  let after = at + key[0].length;
  while (text[after] === " ") after += 1;
  return { dashes, key: plain(key[1] ?? ""), keyColumn: at, rest: text.slice(after), restColumn: after };
}

/** Returns the keys around `column` of line `row`, outer ones first; undefined in a block text. */
function around(lines: readonly string[], row: number, column: number, isItem: boolean): string[] | undefined {
  const path: string[] = [];
  let limit = isItem ? column + 1 : column; // A list can start at the column of its key.
  let dashLimit = column;
  for (let index = row - 1; index >= 0 && limit > 0; index -= 1) {
    const text = lines[index] ?? "";
    if (text.trim() === "" || text.trimStart().startsWith("#")) continue;
    const line = read(text);
    const isParent = line.key !== undefined && line.keyColumn < limit;
    if (isParent) {
      if (BLOCK_TEXT.test(line.rest)) return undefined;
      path.unshift(line.key ?? "");
      limit = dashLimit = line.keyColumn;
    }
    for (const dash of [...line.dashes].reverse()) {
      if (dash >= dashLimit || (line.key === undefined && line.rest !== "")) continue;
      path.unshift("-");
      dashLimit = dash;
      limit = dash + 1;
    }
  }
  return path;
}

/** Extends the path into the brackets of the value on the cursor's line. */
function inFlow(line: Line, above: readonly string[]): YamlPlace {
  const stack: { bracket: string; key: string | undefined }[] = [];
  let start = 0;
  let quote = "";
  for (let at = 0; at < line.rest.length; at += 1) {
    const letter = line.rest[at] ?? "";
    const top = stack.at(-1);
    if (quote !== "") {
      if (letter === quote) quote = "";
    } else if (letter === '"' || letter === "'") {
      quote = letter;
    } else if (letter === "{" || letter === "[") {
      if (at > 0 && top === undefined) break; // A plain text with a bracket in it.
      stack.push({ bracket: letter, key: undefined });
      start = at + 1;
    } else if ((letter === "}" || letter === "]") && top !== undefined) {
      stack.pop();
      start = at + 1;
    } else if (letter === "," && top !== undefined) {
      top.key = undefined;
      start = at + 1;
    } else if (letter === ":" && top?.bracket === "{" && /[\s]|$/.test(line.rest[at + 1] ?? "")) {
      top.key = plain(line.rest.slice(start, at).trim());
      start = at + 1;
    }
  }
  const path = [...above];
  for (const { bracket, key } of stack) {
    if (bracket === "[") path.push("-");
    else if (key !== undefined) path.push(key);
  }
  const top = stack.at(-1);
  const tail = line.rest.slice(start);
  const word = tail.trimStart();
  const column = line.restColumn + start + (tail.length - word.length);
  if (top !== undefined) {
    const isMap = top.bracket === "{";
    return { path, isKey: isMap && top.key === undefined, isValue: !isMap || top.key !== undefined, word, column };
  }
  const isItem = line.key === undefined && line.dashes.length > 0;
  return { path, isKey: line.key === undefined, isValue: line.key !== undefined || isItem, word, column };
}

/** Whether the text ends inside a comment. */
function isComment(text: string): boolean {
  let quote = "";
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? "";
    if (quote !== "") {
      if (letter === quote) quote = "";
    } else if ((letter === '"' || letter === "'") && /[\s[{,:-]|^$/.test(text[at - 1] ?? "")) {
      quote = letter;
    } else if (letter === "#" && /\s|^$/.test(text[at - 1] ?? "")) {
      return true;
    }
  }
  return false;
}

function plain(key: string): string {
  return /^(["']).*\1$/.test(key) ? key.slice(1, -1) : key;
}
