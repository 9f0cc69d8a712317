"""The `abstain` check: the agent made no tool call, wrote none as text, and said why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from planloop.benchmarks.checks.call_rules import BadCheck, CallRules, parse_shapes, require_members, require_usable
from planloop.benchmarks.checks.calls import call_figures, classify_calls, is_builtin_tool
from planloop.benchmarks.checks.evidence import Evidence
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.matchers import find_mismatch

# A model whose answer is the text `mail.send(to="a@x")` has not abstained, whether or not the call can be parsed
# (ShishirPatil/gorilla#1362: such answers were credited as correct refusals). Naming a tool in prose is not a call:
# "mail.send could do it".

_MARKS: Final = re.compile(
    r"""<\|?/?(?:tool|function)_calls?\b | <function= | <invoke\b
    | \[TOOL_CALLS\] | <\|python_tag\|> | ^\s*functools\[""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""Markers that the templates of providers put before a call."""

_NAMED: Final = re.compile(
    r"""["'](?:name|tool|tool_name|function|function_name|action)["']\s*:\s*["']([^"'\s]+)["']"""
)
_GIVEN: Final = re.compile(
    r"""["'](?:arguments|args|parameters|params|input|tool_input|action_input)["']\s*:\s*["'{\[]"""
)
_KEYWORD: Final = re.compile(r"(?<![\w.])[A-Za-z_][\w.\-]*\(\s*[A-Za-z_]\w*\s*=\s*[\w\"'\[{(+-]")
"""`name(key=value`, a call in Python syntax. `f(x) = y` and `f(x == y)` are not calls."""


def has_written_call(text: str, offered: Iterable[str]) -> bool:
    """Whether `text` contains a call: of one of the tools `offered`, or in a form that only calls have."""
    if _MARKS.search(text) or _KEYWORD.search(text) or (_NAMED.search(text) and _GIVEN.search(text)):
        return True
    return any(_calls(text, name) for name in offered)


def _calls(text: str, tool: str) -> bool:
    name = re.escape(tool)
    return any(
        re.search(form, text, re.MULTILINE)
        for form in (
            rf"""["']{name}["']\s*:\s*[{{\[]""",  # {"mail.send": {…
            rf"""(?<![\w.]){name}\(\s*["'\d{{\[-]""",  # mail.send("a@x"
            rf"""^[\s`\[]*{name}\([^)\n]*\)[\s`\];,]*$""",  # Nothing else on its line: [calendar.list()]
            rf"""^[\s`]*{name}\s*\{{""",  # mail.send {"to": …
        )
    )


# A malformed call, a call of an invented tool and a call written as text are all calls. An agent that says nothing has
# not abstained: it did nothing.


def judge_abstain(arguments: JsonObject, evidence: Evidence) -> CheckFinding:
    """Whether `asks-or-says` matches the answer, and the agent made only `free` calls and calls of built-in tools."""
    try:
        rules, wanted = parse_abstain(arguments)
    except BadCheck as error:
        return CheckFinding("error", str(error), probes=0)
    problems = [*_calls_made(rules, evidence), *_answer_problems(wanted, evidence)]
    return CheckFinding(
        "fail" if problems else "pass",
        "; ".join(problems) or "no tool was called, and the answer says why",
        probes=2,
        figures=call_figures(rules, evidence, classify_calls(rules, evidence)),
    )


def parse_abstain(arguments: Json) -> tuple[CallRules, Json]:
    """The calls that are allowed, and the matcher of the answer (None: anything). Raises BadCheck."""
    given = require_members(arguments, ("asks-or-says", "free"), "`abstain`")
    wanted = given.get("asks-or-says")
    if wanted is not None:
        require_usable(wanted, ("asks-or-says",))
    return CallRules((), "any", (), parse_shapes(given.get("free", []), "free"), "deny"), wanted


def _calls_made(rules: CallRules, seen: Evidence) -> Iterator[str]:
    for call in seen.calls:
        is_none = not call.fault and is_builtin_tool(call, seen)
        if not is_none and not any(shape.covers(call, seen) for shape in rules.free):
            yield f"`{call.tool}` was called" + (" (malformed)" if call.fault else "")
    if has_written_call(seen.said, seen.offered):
        yield "the answer contains a call as text"


def _answer_problems(wanted: Json, seen: Evidence) -> Iterator[str]:
    if not seen.said.strip():
        yield "the answer is empty"
    elif wanted is not None and (why := find_mismatch(wanted, seen.said)):
        yield f"the answer {why}"
