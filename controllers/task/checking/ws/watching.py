"""Has a browser look at a page's own socket: in a process of its own, which is stopped in every ending."""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from controllers.task.checking.contract import Bench
from controllers.task.checking.ws.observed import Observed
from controllers.task.checking.ws.page_child import MARK
from reconciler.effects.clamping import last_line
from reconciler.effects.processes import Command, Ending, Exit
from schemas import limits
from schemas.encoding import JsonObject, decode_foreign, encode

CHILD: Final = "controllers.task.checking.ws.page_child"
_NEEDED: Final = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "FONTCONFIG_PATH")


async def observe(url: str, said: str, bench: Bench, within_s: float) -> Observed | str | None:
    """The socket that the page at `url` opens, and what it sends when somebody says `said` there."""
    # What a browser keeps of a visit: it has no time to clear up after itself when it is killed.
    scratch = tempfile.mkdtemp(prefix="planloop-ws-")
    try:
        exit_ = await _run({"url": url, "say": said}, bench, scratch, within_s)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
    if exit_.ending is Ending.TIMED_OUT:
        return f"the browser is not done after {within_s:g} s"
    return _answer(exit_)


async def _run(asked: JsonObject, bench: Bench, scratch: str, within_s: float) -> Exit:
    command = Command(
        cwd=bench.cwd,
        # Not of the task's folder, where its agent may have put a `json.py`; nor with what its environment may say.
        argv=(sys.executable, "-P", "-E", "-m", CHILD),
        stdin=encode(asked),
        env={name: bench.env[name] for name in _NEEDED if name in bench.env} | {"TMPDIR": scratch},
        timeout_s=within_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
    )
    op = bench.ids.mint()
    try:
        return await bench.processes.run(op, command)
    finally:
        bench.processes.forget([op])


def _answer(exit_: Exit) -> Observed | str | None:
    try:
        said_last = exit_.output.rpartition(b"\n" + MARK)[2]
        answer = decode_foreign(said_last.partition(b"\n")[0])
    except ValueError:
        answer = None
    if exit_.code != 0 or not isinstance(answer, dict):
        return f"the browser's process ended: {last_line(exit_.output)}"
    if "why" in answer:
        return str(answer["why"])
    return Observed(answer["path"], tuple(answer["sent"])) if "path" in answer else None
