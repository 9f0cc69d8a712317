"""Compiler diagnostics as text with source excerpts, and as JSON.

Pure: the caller reads the files, and the command prints the line with the number of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic, Related, Span, sort_diagnostics
from planloop.schemas.limits import DIAGNOSTICS_SHOWN_MAX
from planloop.schemas.quantities import cell_width, replace_control_chars

_LINE_SHOWN_MAX: Final = 100  # Columns of a source line; a longer one is cut around its error.
_LEAD: Final = 30  # Columns kept before the error when a line is cut.
_TAB: Final = "    "
_STYLES: Final = {"error": "\033[1;31m", "warning": "\033[1;33m", "dim": "\033[2m", "bold": "\033[1m"}
_PLAIN: Final = "\033[0m"

_Paint: TypeAlias = Callable[[str, str], str]


def diagnostic_text(
    diagnostics: Iterable[Diagnostic],
    texts: Mapping[str, str],
    *,
    color: bool = False,
    most: int = DIAGNOSTICS_SHOWN_MAX,
) -> str:
    """Return the errors in file order, each with its line from `texts` (by file name; a missing file shows no line).

    At most `most` are shown and the rest counted. Ends with a line break unless there is nothing to say.
    """
    problems = sort_diagnostics(diagnostics)
    blocks = [_block(problem, texts, color) for problem in problems[:most]]
    if len(problems) > most:
        blocks.append(f"… and {len(problems) - most} more\n")
    return "".join(blocks)


def diagnostic_json(diagnostic: Diagnostic) -> JsonObject:
    """The same for programs. `pointer` is RFC 6901 text; `span` and `pointer` are null where not known."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "summary": diagnostic.summary,
        "hint": diagnostic.hint,
        "pointer": _pointer_text(diagnostic.pointer),
        "span": diagnostic.span.to_json() if diagnostic.span else None,
        "related": [
            {
                "message": related.message,
                "pointer": _pointer_text(related.pointer),
                "span": related.span.to_json() if related.span else None,
            }
            for related in diagnostic.related
        ],
    }


def diagnostics_text(diagnostics: Iterable[Diagnostic]) -> JsonObject:
    """Return all errors for programs, in file order and complete."""
    problems = sort_diagnostics(diagnostics)
    errors = sum(problem.severity == "error" for problem in problems)
    return {
        "diagnostics": [diagnostic_json(problem) for problem in problems],
        "error_count": errors,
        "warning_count": len(problems) - errors,
    }


def _pointer_text(tokens: tuple[str, ...] | None) -> str | None:
    return None if tokens is None else json_pointer.render_pointer(tokens)


def _block(problem: Diagnostic, texts: Mapping[str, str], color: bool) -> str:
    def paint(style: str, text: str) -> str:
        return f"{_STYLES[style]}{text}{_PLAIN}" if color else text

    title = paint(problem.severity, f"{problem.severity}[{problem.code}]")
    lines = [f"{paint('bold', _place(problem.span, problem.pointer))}{title}: {_prose(problem.summary)}"]
    if problem.span:
        lines += _excerpt(problem.span, texts, paint)
    if problem.hint:
        lines.append(f"  {paint('bold', 'help:')} {_prose(problem.hint)}")
    lines += [f"  {paint('bold', 'note:')} {_related(related)}" for related in problem.related]
    return "\n".join(lines) + "\n"


def _place(span: Span | None, tokens: tuple[str, ...] | None) -> str:
    if span:
        return f"{span.file}:{span.line}:{span.column}: "
    return f"{replace_control_chars(json_pointer.render_pointer(tokens))}: " if tokens else ""


def _related(related: Related) -> str:
    return f"{_place(related.span, related.pointer)}{_prose(related.message)}"


def _excerpt(span: Span, texts: Mapping[str, str], paint: _Paint) -> list[str]:
    text = texts.get(span.file)
    if text is None or span.start > len(text):
        return []
    begin = span.start - (span.column - 1)
    line = text[begin : _line_end(text, span.start)]
    length = max(1, min(span.end, begin + len(line)) - span.start)
    line, at = _cut(line, span.column - 1, length)
    before, marked = _shown(line[:at]), _shown(line[at : at + length])
    carets = paint("error", "^" * max(1, cell_width(marked)))
    gutter = paint("dim", f"{span.line:>5} |")
    return [f"{gutter} {_shown(line)}".rstrip(), f"{paint('dim', '      |')} {' ' * cell_width(before)}{carets}"]


def _line_end(text: str, start: int) -> int:
    ends = [end for end in (text.find("\n", start), text.find("\r", start)) if end >= 0]
    return min(ends, default=len(text))


def _cut(line: str, at: int, length: int) -> tuple[str, int]:
    """Return the part of a long line around its error, and the position of the error in it."""
    if len(line) <= _LINE_SHOWN_MAX:
        return line, at
    first = 0 if at + length <= _LINE_SHOWN_MAX else max(0, at - _LEAD)
    part = line[first : first + _LINE_SHOWN_MAX]
    if first + _LINE_SHOWN_MAX < len(line):
        part += "…"
    return (part, at) if first == 0 else (f"…{part}", at - first + 1)


def _shown(text: str) -> str:
    return replace_control_chars(text.replace("\t", _TAB))


def _prose(text: str) -> str:
    return "\n        ".join(replace_control_chars(line) for line in text.splitlines())
