"""`contains`: holds when a file contains a text, or matches a pattern."""

from __future__ import annotations

import re

from controllers.task.checking import reading
from controllers.task.checking.contract import Bench, Finding
from schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Searches the file. `^` and `$` of a pattern match at lines."""
    name, text, pattern = spec.arguments["path"], spec.arguments.get("text"), spec.arguments.get("pattern")
    content = await reading.read(bench.path(name), name)
    if isinstance(content, Finding):
        return content
    read = content.decode(errors="replace")
    if text is not None:
        return found(text in read, f"{name} contains `{text}`", f"{name} does not contain `{text}`")
    try:
        matches = re.search(pattern or "", read, re.MULTILINE) is not None
    except re.error as error:
        return Finding("error", f"`{pattern}` is not a regular expression: {error}")
    return found(matches, f"{name} matches `{pattern}`", f"{name} does not match `{pattern}`")


def found(holds: bool, yes: str, no: str) -> Finding:
    """A pass that says `yes`, or a fail that says `no`."""
    return Finding("pass", yes) if holds else Finding("fail", no)
