"""The `abstain` check: no tool was called or written out as text, and the agent said why."""

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
"""What providers' templates put before a call."""

_NAMED: Final = re.compile(
    r"""["'](?:name|tool|tool_name|function|function_name|action)["']\s*:\s*["']([^"'\s]+)["']"""
)
_GIVEN: Final = re.compile(
    r"""["'](?:arguments|args|parameters|params|input|tool_input|action_input)["']\s*:\s*["'{\[]"""
)
_KEYWORD: Final = re.compile(r"(?<![\w.])[A-Za-z_][\w.\-]*\(\s*[A-Za-z_]\w*\s*=\s*[\w\"'\[{(+-]")
"""`name(key=value`, as Python writes it; `f(x) = y` is none, nor is `f(x == y)`."""


def has_written_call(text: str, offered: Iterable[str]) -> bool:
    """Whether `text` has a call in it, of one of the tools `offered` or in a form that nothing but a call has."""
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


# A malformed or invented call is a call, and so is one that is written into the text. An agent that says nothing has
# not abstained but done nothing.


def judge_abstain(arguments: JsonObject, evidence: Evidence) -> CheckFinding:
    """Whether `asks-or-says` matches the answer, and the agent made only `free` calls and calls of built-in tools."""
    try:
        rules, wanted = parse_abstain(arguments)
    except BadCheck as error:
        return CheckFinding("error", str(error), probes=0)
    faults = [*_called(rules, evidence), *_said(wanted, evidence)]
    return CheckFinding(
        "fail" if faults else "pass",
        "; ".join(faults) or "no tool was called, and it was said why",
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


def _called(rules: CallRules, seen: Evidence) -> Iterator[str]:
    for call in seen.calls:
        is_none = not call.fault and is_builtin_tool(call, seen)
        if not is_none and not any(shape.covers(call, seen) for shape in rules.free):
            yield f"`{call.tool}` was called" + (", though in a way that nobody can read" if call.fault else "")
    if has_written_call(seen.said, seen.offered):
        yield "a call was written into the answer"


def _said(wanted: Json, seen: Evidence) -> Iterator[str]:
    if not seen.said.strip():
        yield "nothing was said"
    elif wanted is not None and (why := find_mismatch(wanted, seen.said)):
        yield f"what was said {why}"
