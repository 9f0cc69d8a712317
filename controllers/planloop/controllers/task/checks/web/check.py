"""Run the check `web` in a browser process: a person can do the steps of `can`, or cannot reach the end of `never`."""

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

# A process that drives a browser, for the checks that open pages.
#
# It reads a question from stdin and prints its answer as the last line that begins with `mark`. It is always stopped,
# like commands, and the browser's profile is removed.

CLEAR_S: Final = 0.1
_NEEDED: Final = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "FONTCONFIG_PATH")


async def run_browser_process(
    child: str, question: JsonObject, environment: CheckEnvironment, timeout_s: float
) -> ProcessExit:
    """Run the module `child` with `question` on stdin, for at most `timeout_s`; return its exit."""
    # For the browser's profile: a killed browser does not remove it.
    scratch = tempfile.mkdtemp(prefix="planloop-browser-")
    try:
        return await _run(child, question, environment, scratch, timeout_s)
    finally:
        with anyio.CancelScope(shield=True):
            await _clear(scratch)


def browser_answer(exit_: ProcessExit, mark: bytes) -> JsonObject | str:
    """Return the child's answer, or a message if it ended without one."""
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
        # -P, -E: an agent may have put a `json.py` into the task's folder, or set PYTHON variables.
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
    """Remove the browser's profile. A browser whose driver was killed may still write to it for a moment."""
    for _ in range(limits.WEB_CLEAR_TRIES_MAX):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
        if not await anyio.Path(scratch).exists():
            return
        await anyio.sleep(CLEAR_S)


NONCES: Final = "nonces"
ALONE: Final = "alone"
"""Set by the grader of a program: its pages can reach no other host, which might answer for it or be harmed."""
BROWSER_PROGRAM: Final = "planloop.controllers.task.checks.web.child"


async def check_web(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Check `web`, decided by a browser process. Problems that the page did not cause are an `error`."""
    arguments = {name: value for name, value in spec.arguments.items() if name not in (NONCES, ALONE)}
    nonces = fill_nonces(spec.arguments, environment.ids)
    question: JsonObject = {"arguments": arguments, "nonces": dict(nonces.words), "timeout_s": spec.timeout_s}
    if spec.arguments.get(ALONE):
        question["host"] = urlsplit(str(arguments["url"])).hostname or ""
    timeout_s = spec.timeout_s + limits.WEB_START_S_MAX
    exit_ = await run_browser_process(BROWSER_PROGRAM, question, environment, timeout_s)
    failure = command.explain_no_exit(exit_, timeout_s)
    if failure is not None:
        # The page has a shorter time limit of its own, so here only the browser was too slow.
        return replace(failure, is_own=exit_.ending is ExitCause.TOO_MUCH_OUTPUT)
    answer = browser_answer(exit_, MARK)
    return CheckFinding("error", answer, exit_.output, probes=0) if isinstance(answer, str) else web_finding(answer)


def web_finding(answer: JsonObject) -> CheckFinding:
    """Return what the check found, from the answer of its process."""
    evidence = {name: base64.b64decode(content) for name, content in answer["evidence"].items()}
    output, figures = answer["output"].encode(), answer["figures"]
    return CheckFinding(answer["result"], answer["message"], output, answer["probes"], evidence, figures)
