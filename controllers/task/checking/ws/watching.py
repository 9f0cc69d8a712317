"""Has a browser look at a page's own socket: in a process of its own, which is stopped in every ending."""

from __future__ import annotations

import sys
from typing import Final

from controllers.task.checking.contract import Bench
from controllers.task.checking.ws.observed import Observed
from reconciler.effects.clamping import last_line
from reconciler.effects.processes import Command, Ending
from schemas import limits
from schemas.encoding import decode_foreign, encode

CHILD: Final = "controllers.task.checking.ws.page_child"
_NEEDED: Final = ("PATH", "HOME", "TMPDIR", "LANG", "XDG_RUNTIME_DIR", "FONTCONFIG_PATH")


async def observe(url: str, said: str, bench: Bench, within_s: float) -> Observed | str | None:
    """The socket that the page at `url` opens, and what it sends when somebody says `said` there."""
    command = Command(
        cwd=bench.cwd,
        # Not of the task's folder, where its agent may have put a `json.py`; nor with what its environment may say.
        argv=(sys.executable, "-P", "-E", "-m", CHILD),
        stdin=encode({"url": url, "say": said}),
        env={name: bench.env[name] for name in _NEEDED if name in bench.env},
        timeout_s=within_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
    )
    op = bench.ids.mint()
    try:
        exit_ = await bench.processes.run(op, command)
    finally:
        bench.processes.forget([op])
    if exit_.ending is Ending.TIMED_OUT:
        return f"the browser is not done after {within_s:g} s"
    try:
        answer = decode_foreign(exit_.output.rstrip().rpartition(b"\n")[2])
    except ValueError:
        answer = None
    if exit_.code != 0 or not isinstance(answer, dict):
        return f"the browser's process ended: {last_line(exit_.output)}"
    if "why" in answer:
        return str(answer["why"])
    return Observed(answer["path"], tuple(answer["sent"])) if "path" in answer else None
