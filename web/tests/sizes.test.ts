// The size limits of CONTRIBUTING.md for the sources of the page. tests/architecture/test_sizes.py has those for Python.
// Generated files are not checked.

import ts from "typescript";
import { describe, expect, it } from "vitest";

const FUNCTION_LINES_MAX = 70;
const FILE_LINES_MAX = 600;
const TEST_FILE_LINES_MAX = 800;
const PARAMETERS_MAX = 6;

const SOURCES = import.meta.glob<string>(["../src/**/*.{ts,tsx}", "!../src/**/*.d.ts"], { query: "?raw", import: "default", eager: true });
const TESTS = import.meta.glob<string>("./**/*.ts", { query: "?raw", import: "default", eager: true });

interface Found {
  name: string;
  lines: number;
  parameters: number;
}

/** Every function in the text of `file`, including nested ones. */
function functions(file: string, text: string): Found[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, file.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS);
  const lineOf = (at: number): number => source.getLineAndCharacterOfPosition(at).line;
  const found: Found[] = [];
  const walk = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && "body" in node && node.body !== undefined) {
      const from = lineOf(node.getStart());
      found.push({ name: `${file}:${from + 1}`, lines: lineOf(node.end) - from + 1, parameters: node.parameters.length });
    }
    ts.forEachChild(node, walk);
  };
  walk(source);
  return found;
}

function linesOf(text: string): number {
  return text.replace(/\n$/, "").split("\n").length;
}

describe("no function is longer than the limit, or takes more than six parameters", () => {
  it.each(Object.entries(SOURCES))("%s", (file, text) => {
    const all = functions(file, text);
    expect(all.filter((one) => one.lines > FUNCTION_LINES_MAX).map((one) => `${one.name} has ${one.lines} lines`)).toEqual([]);
    expect(all.filter((one) => one.parameters > PARAMETERS_MAX).map((one) => `${one.name} takes ${one.parameters}`)).toEqual([]);
  });
});

it("no file is longer than the limit", () => {
  const tooLong = (files: Record<string, string>, most: number): string[] => Object.keys(files).filter((file) => linesOf(files[file] ?? "") > most);
  expect([...tooLong(SOURCES, FILE_LINES_MAX), ...tooLong(TESTS, TEST_FILE_LINES_MAX)]).toEqual([]);
});

it("counts the lines of every form of a function", () => {
  const text = "function a() {\n}\nclass B { c(x) {\n\n} get d() { return 1; } }\nconst e = () => (\n1);\nconst f = function (x, y) {};\n";
  expect(functions("x.ts", text).map((one) => [one.lines, one.parameters])).toEqual([[2, 0], [3, 1], [1, 0], [2, 0], [1, 2]]);
  expect(Object.keys(SOURCES).length).toBeGreaterThan(90);
});
