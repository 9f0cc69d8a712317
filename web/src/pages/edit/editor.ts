// The text editor: CodeMirror in a shadow root. The server's content security policy allows its style sheets there, but
// not in the document.

import { acceptCompletion, autocompletion, type CompletionContext, type CompletionResult, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState, type Extension, Prec, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { BIDI_CONTROLS, escaped, legible } from "../../words/legible";
import { described, keyOptions, type Names, type Schema, valueOptions } from "./completion";
import { edn } from "./edn";
import { keyAt, placeAt } from "./place";
import type { Format, Point, Span, TextError } from "./api";

export interface Source {
  schema: () => Schema | undefined;
  names: () => Names;
  typed: (text: string) => void;
  /** Whether the text is read-only; called for each new text. */
  isReadOnly: () => boolean;
}

const NOT_TYPED = Annotation.define<boolean>(); // A change that the user did not type.

export class Editor {
  private readonly view: EditorView;

  constructor(
    at: HTMLElement,
    private readonly source: Source,
  ) {
    const root = at.shadowRoot ?? at.attachShadow({ mode: "open" });
    this.view = new EditorView({ parent: root, root, state: this.state("", "yaml") });
  }

  /** Shows another text and clears the undo history, because the old text was based on another plan. */
  setText(text: string, format: Format): void {
    const { anchor } = this.view.state.selection.main;
    const hadFocus = this.view.hasFocus;
    const top = this.view.scrollDOM.scrollTop;
    const state = this.state(text, format);
    this.view.setState(state);
    this.view.dispatch({ selection: { anchor: Math.min(anchor, state.doc.length) }, annotations: NOT_TYPED.of(true) });
    this.view.scrollDOM.scrollTop = top;
    if (hadFocus) this.view.focus();
  }

  /** Marks the errors in the text. */
  mark(errors: readonly TextError[]): void {
    const { doc } = this.view.state;
    const found = errors.flatMap((error): Diagnostic[] => {
      if (error.span === null || error.span.is_here === false) return [];
      const { from, to } = offsets(doc, error.span);
      const message = error.hint ? `${error.summary}\n${error.hint}` : error.summary;
      return [{ from, to: Math.max(to, from), severity: error.severity, source: error.code, message: legible(message) }];
    });
    this.view.dispatch(setDiagnostics(this.view.state, found));
  }

  /** Selects `span`, scrolls to it and focuses the editor. */
  show(span: Span): void {
    const { from, to } = offsets(this.view.state.doc, span);
    this.view.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
    this.view.focus();
  }

  destroy(): void {
    this.view.destroy();
  }

  private state(text: string, format: Format): EditorState {
    return EditorState.create({ doc: text, extensions: this.extensions(format) });
  }

  private extensions(format: Format): Extension[] {
    const isYaml = format === "yaml";
    return [
      lineNumbers(),
      history(),
      drawSelection(),
      highlightSpecialChars({ addSpecialChars: BIDI_CONTROLS, render: special }),
      highlightActiveLine(),
      bracketMatching(),
      indentOnInput(),
      lintGutter(),
      search({ top: true }),
      highlightSelectionMatches(),
      isYaml ? yaml() : StreamLanguage.define(edn),
      syntaxHighlighting(COLOURS),
      isYaml ? [autocompletion({ override: [(context) => this.completions(context)], icons: false }), this.hover()] : [],
      Prec.high(keymap.of([{ key: "Tab", run: acceptCompletion }])), // Only while a completion is open; otherwise Tab moves the focus.
      keymap.of([...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
      EditorState.tabSize.of(2),
      EditorState.readOnly.of(this.source.isReadOnly()),
      EditorView.contentAttributes.of({ "aria-label": "The plan", spellcheck: "false", tabindex: "0" }),
      EditorView.domEventHandlers({ beforeinput: typedOver }),
      EditorView.updateListener.of((update) => {
        const isOurs = update.transactions.some((one) => one.annotation(NOT_TYPED) === true);
        if (update.docChanged && !isOurs) this.source.typed(update.state.doc.toString());
      }),
      THEME,
    ];
  }

  private completions(context: CompletionContext): CompletionResult | null {
    const schema = this.source.schema();
    if (schema === undefined) return null;
    const line = context.state.doc.lineAt(context.pos);
    const lines = context.state.doc.toString().split("\n");
    const place = placeAt(lines, line.number - 1, context.pos - line.from);
    if (place === undefined) return null;
    if (!context.explicit && place.word === "") return null;
    const isBlockKey = !line.text.includes("{");
    const keys = place.isKey ? keyOptions(schema, place.path) : [];
    const values = place.isValue ? valueOptions(schema, place.path, this.source.names()) : [];
    const taken = new Set(isBlockKey ? siblings(lines, line.number - 1, place.column) : []);
    const options = [...keys.filter((one) => !taken.has(one.label)), ...values];
    if (options.length === 0) return null;
    return { from: line.from + place.column, options: options.map(toCompletion), validFor: /^[\w./*-]*$/ };
  }

  private hover(): Extension {
    return hoverTooltip((view, pos) => {
      const schema = this.source.schema();
      const line = view.state.doc.lineAt(pos);
      const key = schema && keyAt(view.state.doc.toString().split("\n"), line.number - 1, pos - line.from);
      const found = key && described(schema, key.path);
      if (found === undefined) return null;
      return { pos: line.from + key!.from, end: line.from + key!.to, above: true, create: () => ({ dom: card(key!.path.at(-1) ?? "", found.detail, found.doc) }) };
    });
  }
}

/** Replaces a selection by typed text. The browser would copy the colours as inline styles, which the policy forbids. */
function typedOver(event: InputEvent, view: EditorView): boolean {
  const isOver = event.inputType === "insertText" && event.data !== null && !view.state.selection.main.empty;
  if (!isOver || view.composing) return false;
  event.preventDefault();
  if (!view.state.readOnly) view.dispatch(view.state.replaceSelection(event.data ?? ""), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

function toCompletion(one: { label: string; detail: string; info: string; apply: string }) {
  return { label: one.label, detail: one.detail, apply: one.apply, ...(one.info && { info: one.info }) };
}

/** Renders an invisible or bidirectional control character as its escape. */
function special(code: number, name: string | null): HTMLElement {
  const element = document.createElement("span");
  element.className = "cm-specialChar";
  element.textContent = escaped(code);
  if (name !== null) element.title = name;
  return element;
}

/** Returns the keys at `column` in the map around line `row`. */
function siblings(lines: readonly string[], row: number, column: number): string[] {
  const found: string[] = [];
  const look = (step: number): void => {
    for (let at = row + step; at >= 0 && at < lines.length; at += step) {
      const text = lines[at] ?? "";
      const indent = text.length - text.trimStart().length;
      if (text.trim() === "" || indent > column) continue;
      const start = text.slice(0, column).replaceAll("-", " ").trim() === "" ? column : -1;
      const key = start < 0 ? null : /^["']?([\w.-]+)["']?\s*:/.exec(text.slice(column));
      if (key?.[1] !== undefined) found.push(key[1]);
      if (indent < column) return;
    }
  };
  look(-1);
  look(1);
  return found;
}

/** Converts a span of the server, in characters, to offsets in the text, in UTF-16 units. */
function offsets(doc: Text, span: Span): { from: number; to: number } {
  const from = offset(doc, span.start);
  return { from, to: Math.max(from, offset(doc, span.end)) };
}

function offset(doc: Text, point: Point): number {
  const line = doc.line(Math.min(Math.max(1, point.line), doc.lines));
  const before = [...line.text].slice(0, point.column - 1).join("");
  return line.from + Math.min(before.length, line.length);
}

function card(name: string, detail: string, doc: string): HTMLElement {
  const element = document.createElement("div");
  element.className = "field-card";
  const head = element.appendChild(document.createElement("b"));
  head.textContent = name;
  element.append(` ${detail}`);
  element.appendChild(document.createElement("p")).textContent = doc;
  return element;
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName), tags.atom], color: "var(--code-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.labelName, tags.typeName, tags.keyword, tags.meta], color: "var(--warn)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--ground)", color: "var(--ink)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--quiet)", borderRight: "1px solid var(--edge)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)",
  },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--warn) 25%, transparent)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-tooltip .field-card, .cm-completionInfo": { padding: "0.35rem 0.6rem", maxWidth: "26rem", whiteSpace: "normal", font: "13px/1.4 system-ui, sans-serif" },
  ".field-card p": { margin: "0.2rem 0 0" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--ground)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.75", marginLeft: "0.75em" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", padding: "0.3rem 0.6rem", font: "13px/1.4 system-ui, sans-serif" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "3px solid var(--warn)" },
});
