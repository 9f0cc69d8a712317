"""`web`: holds when a person in a browser can do the steps of `can`, or cannot come to the end of `never`.

The browser is driven by a process of its own (`child.py`), which is given the check and prints what it found: no page
comes near the owner. It is stopped in every ending, as commands are.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from controllers.task.checking import shell
from controllers.task.checking.contract import Bench, Finding
from controllers.task.checking.distinct import nonces_of
from controllers.task.checking.web.child import MARK
from reconciler.effects.clamping import last_line
from reconciler.effects.processes import Command, Exit
from schemas import limits
from schemas.encoding import JsonObject, decode, encode
from schemas.task import CheckSpec

NONCES: Final = "nonces"
CLEAR_S: Final = 0.1
CHILD: Final = "controllers.task.checking.web.child"
_NEEDED: Final = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "FONTCONFIG_PATH")


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Asks a browser. Whatever is not about the page is an `error`."""
    # What a browser keeps of a visit: it has no time to clear up after itself when it is killed.
    scratch = tempfile.mkdtemp(prefix="planloop-web-")
    try:
        exit_ = await _run(spec, bench, scratch)
    finally:
        with anyio.CancelScope(shield=True):
            await _clear(scratch)
    trouble = shell.not_ended(exit_, spec.timeout_s + limits.WEB_START_S_MAX)
    if trouble is not None:
        return trouble
    lines = [line for line in exit_.output.splitlines() if line.startswith(MARK)]
    if exit_.code != 0 or not lines:
        return Finding("error", f"the browser's process ended: {last_line(exit_.output)}", exit_.output, probes=0)
    return _finding(decode(lines[-1].removeprefix(MARK)))


async def _clear(scratch: str) -> None:
    """Removes what a browser kept. One whose driver was killed writes on for a moment until it has noticed."""
    for _ in range(limits.WEB_CLEAR_TRIES_MAX):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
        if not await anyio.Path(scratch).exists():
            return
        await anyio.sleep(CLEAR_S)


async def _run(spec: CheckSpec, bench: Bench, scratch: str) -> Exit:
    arguments = {name: value for name, value in spec.arguments.items() if name != NONCES}
    nonces = nonces_of(spec.arguments, bench.ids)
    command = Command(
        cwd=bench.cwd,
        # Not of the task's folder, where its agent may have put a `json.py`; nor with what its environment may say.
        argv=(sys.executable, "-P", "-E", "-m", CHILD),
        stdin=encode({"arguments": arguments, "nonces": dict(nonces.words), "timeout_s": spec.timeout_s}),
        env={name: bench.env[name] for name in _NEEDED if name in bench.env} | {"TMPDIR": scratch},
        timeout_s=spec.timeout_s + limits.WEB_START_S_MAX,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
    )
    op = bench.ids.mint()
    try:
        return await bench.processes.run(op, command)
    finally:
        bench.processes.forget([op])


def _finding(answer: JsonObject) -> Finding:
    evidence = {name: base64.b64decode(content) for name, content in answer["evidence"].items()}
    return Finding(answer["result"], answer["message"], answer["output"].encode(), answer["probes"], evidence)
