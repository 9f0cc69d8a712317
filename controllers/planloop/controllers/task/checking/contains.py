"""`contains`: holds when a file contains a text, or matches a pattern.

Whether a pattern matches is looked for in a process of its own: some patterns take years on some texts, nothing can
stop them from within, and meanwhile the owner would do nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from planloop.controllers.task.checking import reading, shell
from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.controllers.task.checking.pattern_child import FOUND, NOT_A_PATTERN, NOT_FOUND
from planloop.reconciler.effects.processes import Command
from planloop.schemas.file_text import text_of
from planloop.schemas.task import CheckSpec

CHILD: Final = Path(__file__).with_name("pattern_child.py")


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Searches the file. `^` and `$` of a pattern match at lines."""
    name, text, pattern = spec.arguments["path"], spec.arguments.get("text"), spec.arguments.get("pattern")
    content = await reading.read(bench, name)
    if isinstance(content, Finding):
        return content
    if (stored := text_of(content)) is not None and stored.how:
        content = stored.shown.encode()  # What is searched for comes from a plan, so it is Unicode.
    if text is not None:
        yes, no = f"{name} contains `{text}`", f"{name} does not contain `{text}`"
        return Finding("pass", yes) if text in content.decode(errors="replace") else Finding("fail", no)
    return await _matched(name, pattern or "", content, bench, spec.timeout_s)


async def _matched(name: str, pattern: str, content: bytes, bench: Bench, timeout_s: float) -> Finding:
    line = pattern.encode().hex().encode() + b"\n"  # Any text at all fits on a line like this.
    argv = (sys.executable, "-I", "-S", str(CHILD))
    op = bench.ids.mint()
    command = Command(cwd=bench.cwd, argv=argv, stdin=line + content, timeout_s=timeout_s)
    exit_ = await bench.processes.run(op, command)
    bench.processes.forget([op])
    trouble = shell.not_ended(exit_, timeout_s)
    if trouble is not None:
        return trouble
    match exit_.code:
        case code if code == FOUND:
            return Finding("pass", f"{name} matches `{pattern}`")
        case code if code == NOT_FOUND:
            return Finding("fail", f"{name} does not match `{pattern}`")
        case code if code == NOT_A_PATTERN:
            words = exit_.output.decode(errors="replace").strip()
            return Finding("error", f"`{pattern}` is not a regular expression: {words}")
        case _:
            return Finding("error", f"`{pattern}` could not be looked for", exit_.output, is_own=True)
