"""The check `web`, run in a browser process: passes when a person can do the steps of `can` and never reaches
`never`.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from planloop.controllers.task.checks import command
from planloop.controllers.task.checks.nonces import fill_nonces
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding
from planloop.controllers.task.checks.web.child import MARK
from planloop.reconciler.effects.processes import ExitCause, ProcessCommand, ProcessExit
from planloop.reconciler.effects.truncate import last_line
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, decode_foreign, encode
from planloop.schemas.objects.task import CheckSpec

# A process in which a browser is driven, for the checks that look at pages: how it is started and cleared up after.
#
# It is given what it is asked on stdin and prints its answer as the last line that begins with `mark`. It is stopped in
# every ending, as commands are; what the browser kept of its visit is removed.

CLEAR_S: Final = 0.1
_NEEDED: Final = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "FONTCONFIG_PATH")


async def run_browser_process(
    child: str, question: JsonObject, environment: CheckEnvironment, timeout_s: float
) -> ProcessExit:
    """How the module `child` ended that was asked `question`, at the latest after `timeout_s`."""
    # What a browser keeps of a visit: it has no time to clear up after itself when it is killed.
    scratch = tempfile.mkdtemp(prefix="planloop-browser-")
    try:
        return await _run(child, question, environment, scratch, timeout_s)
    finally:
        with anyio.CancelScope(shield=True):
            await _clear(scratch)


def browser_answer(exit_: ProcessExit, mark: bytes) -> JsonObject | str:
    """What the child answered; words when it ended without an answer."""
    lines = [line for line in exit_.output.splitlines() if line.startswith(mark)]
    try:
        answer = decode_foreign(lines[-1].removeprefix(mark)) if lines and exit_.code == 0 else None
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else f"the browser's process ended: {last_line(exit_.output)}"


async def _run(
    child: str, question: JsonObject, environment: CheckEnvironment, scratch: str, timeout_s: float
) -> ProcessExit:
    command = ProcessCommand(
        cwd=environment.cwd,
        # Not of the task's folder, where its agent may have put a `json.py`; nor with what its environment may say.
        argv=(sys.executable, "-P", "-E", "-m", child),
        stdin=encode(question),
        env={name: environment.env[name] for name in _NEEDED if name in environment.env} | {"TMPDIR": scratch},
        timeout_s=timeout_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
    )
    op = environment.ids.mint()
    try:
        return await environment.processes.run(op, command)
    finally:
        environment.processes.forget([op])


async def _clear(scratch: str) -> None:
    """Removes what a browser kept. One whose driver was killed writes on for a moment until it has noticed."""
    for _ in range(limits.WEB_CLEAR_TRIES_MAX):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
        if not await anyio.Path(scratch).exists():
            return
        await anyio.sleep(CLEAR_S)


# `web`: holds when a person in a browser can do the steps of `can`, or cannot come to the end of `never`.
#
# The browser is driven by a process of its own (`child.py`), which is given the check and prints what it found: no page
# comes near the owner.

NONCES: Final = "nonces"
ALONE: Final = "alone"
"""Set by who grades a program: its pages reach nobody else, who might answer for it or be harmed."""
BROWSER_PROGRAM: Final = "planloop.controllers.task.checks.web.child"


async def check_web(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Asks a browser. Whatever is not about the page is an `error`."""
    arguments = {name: value for name, value in spec.arguments.items() if name not in (NONCES, ALONE)}
    nonces = fill_nonces(spec.arguments, environment.ids)
    question: JsonObject = {"arguments": arguments, "nonces": dict(nonces.words), "timeout_s": spec.timeout_s}
    if spec.arguments.get(ALONE):
        question["host"] = urlsplit(str(arguments["url"])).hostname or ""
    timeout_s = spec.timeout_s + limits.WEB_START_S_MAX
    exit_ = await run_browser_process(BROWSER_PROGRAM, question, environment, timeout_s)
    trouble = command.explain_no_exit(exit_, timeout_s)
    if trouble is not None:
        # Pages have a time of their own, within this one: only the browser was too slow.
        return replace(trouble, is_own=exit_.ending is ExitCause.TOO_MUCH_OUTPUT)
    answer = browser_answer(exit_, MARK)
    return CheckFinding("error", answer, exit_.output, probes=0) if isinstance(answer, str) else web_finding(answer)


def web_finding(answer: JsonObject) -> CheckFinding:
    """Return what the check found, from the answer of its process."""
    evidence = {name: base64.b64decode(content) for name, content in answer["evidence"].items()}
    output, figures = answer["output"].encode(), answer["figures"]
    return CheckFinding(answer["result"], answer["message"], output, answer["probes"], evidence, figures)
