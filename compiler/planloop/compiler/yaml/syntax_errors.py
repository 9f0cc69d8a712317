"""Explain libyaml's errors: name the likely mistake and suggest a fix.

libyaml knows where it got lost, seldom why. Each rule below looks at the text around that spot; the first that has
something to say wins, and the last repeats libyaml. Only a broken text comes here, so nothing needs to be fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, TypeAlias

from yaml import MarkedYAMLError

from planloop.compiler.source import SourceText
from planloop.schemas.diagnostic import Diagnostic, Related
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import DIAGNOSTICS_SHOWN_MAX, PLAN_DEPTH_MAX

_TAB_INDENT: Final = re.compile(r"^ *(\t)[ \t]*(?=[^\s#])", re.MULTILINE)
_CONFLICT: Final = re.compile(r"^(?:<{7}|={7}|>{7})(?= |\r?$)", re.MULTILINE)
_ANCHOR: Final = re.compile(r"&([^\s,\[\]{}]+)")
_WORD: Final = re.compile(r"[^\s,\[\]{}]*")
_CLOSERS: Final = {"[": "]", "{": "}"}


@frozen
class _Complaint:
    """libyaml's error: `at` is where it got lost, `since` where the thing began that it was reading."""

    source: SourceText
    problem: str
    context: str
    at: int
    since: int

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def char(self) -> str:
        return self.text[self.at : self.at + 1]

    @property
    def line(self) -> str:
        """The line it got lost in."""
        end = re.compile(r"[\r\n]|\Z").search(self.text, self.at)
        assert end is not None
        return self.text[self._line_start(self.at) : end.start()]

    @property
    def before(self) -> str:
        """The part of the line before the spot."""
        return self.text[self._line_start(self.at) : self.at]

    def _line_start(self, offset: int) -> int:
        return offset - (self.source.line_column(offset)[1] - 1)

    def word(self, at: int) -> str:
        found = _WORD.match(self.text, at)
        return found[0] if found else ""

    def fault(self, code: str, summary: str, hint: str, at: int, length: int = 1) -> Diagnostic:
        return Diagnostic(code, summary, hint, span=self.source.span(at, min(at + length, len(self.text))))

    def since_note(self, message: str) -> tuple[Related, ...]:
        return (Related(message, self.source.span(self.since, self.since + 1)),)


_Rule: TypeAlias = Callable[[_Complaint], tuple[Diagnostic, ...]]


def explain_yaml_error(source: SourceText, error: MarkedYAMLError) -> tuple[Diagnostic, ...]:
    """Return the problems behind a parser's error; at least one."""
    at = error.problem_mark.index if error.problem_mark else 0
    since = error.context_mark.index if error.context_mark else at
    complaint = _Complaint(source, str(error.problem or ""), str(error.context or ""), at, since)
    for rule in _RULES:
        if faults := rule(complaint):
            return faults
    hint = "check the indentation and quotes of this line and the line above"
    return (complaint.fault("P0105", f"invalid YAML: {complaint.problem}", hint, at),)


def _depth(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    """A bound of PyYAML's own, from 6.0.4 on. It is far above ours, and heard first: a bracket may begin a key, so the
    scanner reads a thousand of them before the composer has the first."""
    if "nesting depth" not in complaint.problem:
        return ()
    summary = f"nested more than {PLAN_DEPTH_MAX} levels deep"
    return (complaint.fault("P0111", summary, "flatten the plan", complaint.at),)


def _conflict_markers(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    hint = "resolve the conflict: keep one side and delete the marker lines"
    return tuple(
        complaint.fault("P0105", "merge conflict marker in the file", hint, found.start(), 7)
        for found in list(_CONFLICT.finditer(complaint.text))[: DIAGNOSTICS_SHOWN_MAX + 1]
    )


def _tabs(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if complaint.char != "\t" and "tab character" not in complaint.problem:
        return ()
    found = [match.start(1) for match in _TAB_INDENT.finditer(complaint.text)] or [complaint.at]
    hint = "replace the tab with spaces"
    return tuple(complaint.fault("P0106", "tab used to indent", hint, at) for at in found[: DIAGNOSTICS_SHOWN_MAX + 1])


def _documents(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if "another document" not in complaint.problem:
        return ()
    hint = "delete the `---`, or move the rest to another file: a plan is one document"
    return (complaint.fault("P0116", "a second document begins here", hint, complaint.at, 3),)


def _anchors(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if "undefined alias" in complaint.problem:
        written = complaint.word(complaint.at)
        near = get_close_matches(written[1:], _ANCHOR.findall(complaint.text), n=1)
        hint = f"did you mean `*{near[0]}`?" if near else f'if it is text, quote it: "{written}"'
        return (complaint.fault("P0114", f"undefined alias `{written}`", hint, complaint.at, len(written)),)
    if "duplicate anchor" in complaint.context:
        written = complaint.word(complaint.at)
        fault = complaint.fault(
            "P0114", f"duplicate anchor `{written}`", "rename one of them", complaint.at, len(written)
        )
        return (
            Diagnostic(
                fault.code, fault.summary, fault.hint, span=fault.span, related=complaint.since_note("first one here")
            ),
        )
    if complaint.context in ("while scanning an alias", "while scanning an anchor"):
        written = complaint.text[complaint.since : complaint.since + 1] + complaint.word(complaint.since + 1)
        what = "an alias" if written[0] == "*" else "an anchor"
        summary = f"`{written[0]}` begins {what}, and `{written}` is not a valid one"
        return (complaint.fault("P0105", summary, f'quote it: "{written}"', complaint.since, len(written)),)
    return ()


def _quotes(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if "quoted scalar" not in complaint.context:
        return ()
    quote = complaint.text[complaint.since]
    if "escape" in complaint.problem:
        at = complaint.text.rfind("\\", 0, complaint.at + 1)
        written = complaint.text[at : at + 2]
        hint = "write a backslash as `\\\\` in double quotes, or use single quotes"
        return (complaint.fault("P0105", f"unknown escape `{written}` in double quotes", hint, at, 2),)
    inner = "`''`" if quote == "'" else '`\\"`'
    hint = f"end it with `{quote}`; write that quote in it as {inner}"
    return (complaint.fault("P0107", "unclosed quote", hint, complaint.since),)


def _unclosed(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    opener = complaint.text[complaint.since : complaint.since + 1]
    if complaint.problem.startswith("did not find expected ',' or"):
        closer = _CLOSERS[opener]
        line, column = complaint.source.line_column(complaint.at)
        is_later = line > complaint.source.line_column(complaint.since)[0]
        if closer in complaint.text[complaint.at :] and not (
            is_later and column <= _indent_of(complaint, complaint.since) + 1
        ):
            summary = f"missing comma or `{closer}` before this"
            hint = "separate items with commas; quote a text that contains `: ` or `, `"
            fault = complaint.fault("P0105", summary, hint, complaint.at)
            return (
                Diagnostic(
                    fault.code,
                    summary,
                    hint,
                    span=fault.span,
                    related=complaint.since_note(f"`{opener}` was opened here"),
                ),
            )
        return (_not_closed(complaint, opener, complaint.since),)
    if "node content" in complaint.problem and not complaint.text[complaint.at :].strip():
        last = max(complaint.text.rfind("[", 0, complaint.at), complaint.text.rfind("{", 0, complaint.at))
        return (_not_closed(complaint, complaint.text[last], last),) if last >= 0 else ()
    return ()


def _not_closed(complaint: _Complaint, opener: str, at: int) -> Diagnostic:
    hint = f"add `{_CLOSERS[opener]}`, or quote the text if it begins with `{opener}`"
    return complaint.fault("P0107", f"unclosed `{opener}`", hint, at)


def _indent_of(complaint: _Complaint, offset: int) -> int:
    column = complaint.source.line_column(offset)[1]
    line = complaint.text[offset - column + 1 : offset + 1]
    return len(line) - len(line.lstrip(" "))


def _misplaced(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    char = complaint.char
    if char in ("]", "}") and ("node content" in complaint.problem or "expected key" in complaint.problem):
        hint = "delete it, add the opening bracket, or quote the text that it belongs to"
        return (complaint.fault("P0108", f"unmatched `{char}`", hint, complaint.at),)
    if char == ":" and ("node content" in complaint.problem or "expected key" in complaint.problem):
        return (complaint.fault("P0110", "a key is empty", "add a name before the colon", complaint.at),)
    if "node content" in complaint.problem and char == ",":
        return (complaint.fault("P0105", "missing value before this comma", "delete the comma", complaint.at),)
    if "cannot start any token" in complaint.problem:
        written = complaint.word(complaint.at) or char
        summary = f"an unquoted text cannot begin with `{char}` here"
        return (complaint.fault("P0105", summary, f'quote it: "{written}"', complaint.at, len(written)),)
    if "block sequence entries" in complaint.problem:
        hint = "put the `- ` on a line of its own, or write the list as `[…]`"
        return (complaint.fault("P0105", "a list cannot begin on this line", hint, complaint.at),)
    return ()


def _colons(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if "mapping values are not allowed" in complaint.problem:
        at = complaint.at
        if re.search(r":[ \t]", complaint.before.lstrip(" -?")):
            hint = "quote the text if the colon belongs to it; otherwise begin a new line"
            return (complaint.fault("P0105", "second `: ` in the value of a key", hint, at),)
        indent = len(complaint.line) - len(complaint.line.lstrip(" "))
        start = at - len(complaint.before) + indent
        hint = "align it with its sibling keys; the line above already has a value"
        return (complaint.fault("P0105", "this key is indented under a plain value", hint, start, at - start),)
    if "could not find expected ':'" in complaint.problem:
        end = complaint.text.find("\n", complaint.since)
        length = (end if end >= 0 else len(complaint.text)) - complaint.since
        hint = "add the colon, or indent the line to continue the text above; quote a longer text, or use `|`"
        return (complaint.fault("P0105", "this line is not `key: value`", hint, complaint.since, max(1, length)),)
    return ()


def _indentation(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if "expected key" not in complaint.problem and "expected '-' indicator" not in complaint.problem:
        return ()
    if complaint.before.rstrip().endswith(("'", '"')):
        hint = "quote the whole text, or none of it"
        return (complaint.fault("P0105", "text after a closing quote", hint, complaint.at),)
    line, column = complaint.source.line_column(complaint.since)
    block = "map" if "expected key" in complaint.problem else "list"
    summary = f"wrong indentation: the {block} above begins at column {column}"
    if complaint.char == "-" and block == "map":
        summary = "list item between the keys of a map"
    elif block == "list" and complaint.source.line_column(complaint.at)[1] == column:
        summary = "key between the items of a list"
    note = complaint.since_note(f"the {block} begins here")
    hint = f"align it with the {block} of line {line}, or indent it under its own key"
    span = complaint.source.span(complaint.at, min(complaint.at + 1, len(complaint.text)))
    return (Diagnostic("P0105", summary, hint, span=span, related=note),)


def _tags(complaint: _Complaint) -> tuple[Diagnostic, ...]:
    if "tag" in complaint.problem or "tag" in complaint.context:
        hint = "remove it, or quote it if it is text: plans support only `!!str` and the other standard tags"
        return (
            complaint.fault(
                "P0115", "unknown tag", hint, complaint.since, max(1, len(complaint.word(complaint.since)))
            ),
        )
    if "directive" in complaint.context or "incompatible YAML" in complaint.problem:
        return (complaint.fault("P0105", "unknown directive", "delete the line", complaint.since),)
    return ()


_RULES: Final[tuple[_Rule, ...]] = (
    _depth,
    _conflict_markers,
    _tabs,
    _documents,
    _anchors,
    _quotes,
    _unclosed,
    _misplaced,
    _colons,
    _indentation,
    _tags,
)
