"""A process in which a browser is driven, for the checks that look at pages: how it is started and cleared up after.

It is given what it is asked on stdin and prints its answer as the last line that begins with `mark`. It is stopped in
every ending, as commands are; what the browser kept of its visit is removed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from planloop.controllers.task.checking.contract import Bench
from planloop.reconciler.effects.clamping import last_line
from planloop.reconciler.effects.processes import Command, Exit
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject, decode_foreign, encode

CLEAR_S: Final = 0.1
_NEEDED: Final = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "FONTCONFIG_PATH")


async def asked(child: str, question: JsonObject, bench: Bench, timeout_s: float) -> Exit:
    """How the module `child` ended that was asked `question`, at the latest after `timeout_s`."""
    # What a browser keeps of a visit: it has no time to clear up after itself when it is killed.
    scratch = tempfile.mkdtemp(prefix="planloop-browser-")
    try:
        return await _run(child, question, bench, scratch, timeout_s)
    finally:
        with anyio.CancelScope(shield=True):
            await _clear(scratch)


def answer_of(exit_: Exit, mark: bytes) -> JsonObject | str:
    """What the child answered; words when it ended without an answer."""
    lines = [line for line in exit_.output.splitlines() if line.startswith(mark)]
    try:
        answer = decode_foreign(lines[-1].removeprefix(mark)) if lines and exit_.code == 0 else None
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else f"the browser's process ended: {last_line(exit_.output)}"


async def _run(child: str, question: JsonObject, bench: Bench, scratch: str, timeout_s: float) -> Exit:
    command = Command(
        cwd=bench.cwd,
        # Not of the task's folder, where its agent may have put a `json.py`; nor with what its environment may say.
        argv=(sys.executable, "-P", "-E", "-m", child),
        stdin=encode(question),
        env={name: bench.env[name] for name in _NEEDED if name in bench.env} | {"TMPDIR": scratch},
        timeout_s=timeout_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
    )
    op = bench.ids.mint()
    try:
        return await bench.processes.run(op, command)
    finally:
        bench.processes.forget([op])


async def _clear(scratch: str) -> None:
    """Removes what a browser kept. One whose driver was killed writes on for a moment until it has noticed."""
    for _ in range(limits.WEB_CLEAR_TRIES_MAX):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
        if not await anyio.Path(scratch).exists():
            return
        await anyio.sleep(CLEAR_S)
