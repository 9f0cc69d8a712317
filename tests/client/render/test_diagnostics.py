"""Diagnostics in print: the style of rustc, safe for a terminal, and the same as JSON."""

from __future__ import annotations

import json

import pytest

from planloop.client.render.diagnostics import diagnostic_json, diagnostic_text, diagnostics_text
from planloop.compiler.source import SourceText
from planloop.schemas.diagnostic import Diagnostic, Related, Span
from tests.golden_text import said


def span_of(text: str, part: str, file: str = "webchat.plan.yaml") -> Span:
    start = text.index(part)
    return SourceText(file, text).span(start, start + len(part))


def shown(text: str, part: str, summary: str = "it is wrong", **fields: object) -> str:
    span = span_of(text, part)
    return diagnostic_text([Diagnostic("P0203", summary, span=span, **fields)], {span.file: text})  # type: ignore[arg-type]


def test_error_shows_its_place_line_fix_and_related_places() -> None:
    text = "\n" * 11 + "  worker: {}\n" + "\n" * 8 + "    agent: worekr\n"
    note = Related("declared here", span_of(text, "worker"))
    fault = Diagnostic(
        "P0203", "unknown agent `worekr`", "did you mean `worker`?", span=span_of(text, "worekr"), related=(note,)
    )
    said(diagnostic_text([fault], {"webchat.plan.yaml": text}), "webchat.plan.yaml:21:12", "P0203", "worekr", "worker")


def test_errors_are_in_file_order_and_unique() -> None:
    text = "a: 1\nb: 2\n"
    first, second = (Diagnostic("P0201", name, span=span_of(text, name)) for name in "ab")
    printed = diagnostic_text([second, first, second, Diagnostic("P0101", "no place")], {})
    assert [line.rpartition(" ")[2] for line in printed.splitlines()] == ["place", "a", "b"]


def test_no_errors_give_no_text() -> None:
    assert diagnostic_text([], {}) == ""


def test_more_than_twenty_are_counted() -> None:
    faults = [Diagnostic("P0201", f"fault {number:02}") for number in range(33)]
    printed = diagnostic_text(faults, {}).splitlines()
    assert len(printed) == 21
    assert printed[-1] == "… and 13 more"
    assert len(diagnostic_text(faults, {}, most=50).splitlines()) == 33


def test_known_facts_are_shown_without_a_text_or_a_span() -> None:
    text = "a: 1\n"
    said(diagnostic_text([Diagnostic("P0201", "x", span=span_of(text, "1"))], {}), "webchat.plan.yaml:1:4", "P0201")
    warning = Diagnostic("P0407", "x", pointer=("tasks", "a/b"), severity="warning")
    said(diagnostic_text([warning], {}), "P0407")


@pytest.mark.parametrize(
    ("text", "part", "line", "carets"),
    [
        ("a:\tb: c\n", "c", "a:    b: c", "         ^"),
        ("日本: 語 x\n", "x", "日本: 語 x", "         ^"),
        ("e\u0301: x\n", "x", "e\u0301: x", "   ^"),
        ("a: [\n  1]\n", "[\n  1]", "a: [", "   ^"),
        ("a: b\r\n", "b", "a: b", "   ^"),
        ("a: \x1b[31mb\n", "b", "a: \ufffd[31mb", "        ^"),
    ],
)  # fmt: skip
def test_carets_are_under_the_error_for_any_line(text: str, part: str, line: str, carets: str) -> None:
    assert shown(text, part).splitlines()[1:] == [f"    1 | {line}", f"      | {carets}"]


def test_error_at_the_end_of_the_text_has_a_caret() -> None:
    text = "a: ["
    span = SourceText("p", text).span(4, 4)
    assert diagnostic_text([Diagnostic("P0107", "x", span=span)], {"p": text}).splitlines()[1:] == [
        "    1 | a: [",
        "      |     ^",
    ]


def test_very_long_line_is_cut_around_its_error() -> None:
    text = "x" * 5000 + "HERE" + "y" * 5000
    lines = shown(text, "HERE").splitlines()
    assert max(map(len, lines)) < 120
    assert lines[1].index("HERE") == lines[2].index("^")
    assert lines[2].endswith(" ^^^^")


def test_nothing_in_a_plan_can_steer_the_terminal() -> None:
    printed = shown("a: b\n", "b", summary="unknown `\x1b]0;owned\x07`", hint="two\nlines")
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "  help: two\n        lines\n" in printed


def test_colour_is_only_added() -> None:
    text = "a: b\n"
    fault = Diagnostic("P0203", "x", "y", span=span_of(text, "b"))
    plain, colored = (diagnostic_text([fault], {"webchat.plan.yaml": text}, color=color) for color in (False, True))
    assert "\033[1;31merror[P0203]\033[0m" in colored
    for code in ("\033[1;31m", "\033[2m", "\033[1m", "\033[0m"):
        colored = colored.replace(code, "")
    assert colored == plain


def test_json_holds_all_errors_and_counts_them() -> None:
    text = "a: b\n"
    fault = Diagnostic(
        "P0203", "x", "y", ("tasks", "a"), span_of(text, "b"), related=(Related("see", pointer=("agents",)),)
    )
    warning = Diagnostic("P0407", "w", severity="warning")
    assert diagnostic_json(fault) == {
        "code": "P0203",
        "severity": "error",
        "summary": "x",
        "hint": "y",
        "pointer": "/tasks/a",
        "span": {
            "file": "webchat.plan.yaml",
            "start": {"line": 1, "column": 4, "offset": 3},
            "end": {"line": 1, "column": 5, "offset": 4},
        },
        "related": [{"message": "see", "pointer": "/agents", "span": None}],
    }
    told = diagnostics_text([fault, *([warning] * 3)])
    assert (told["error_count"], told["warning_count"], len(told["diagnostics"])) == (1, 1, 2)
    json.dumps(told)
