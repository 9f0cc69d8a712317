"""Calls that were written into a text instead of being made: in the forms that models write when their format slips.

Who writes `mail.send(to="a@x")` as an answer has not abstained, whether or not anybody could read it (ShishirPatil/
gorilla#1362: such answers were credited as right refusals). Naming a tool in prose is no call: "mail.send could do it".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

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


def is_call(text: str, offered: Iterable[str]) -> bool:
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
