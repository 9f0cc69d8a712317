"""Compile texts in separate processes, with limits on time and number.

The process (`child.py`) is kept for the next text and ends when nobody edits for some minutes. A text that takes too
long takes only that process with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.server.edit import compile_child

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

AT_ONCE: Final = 2  # Texts that are looked at at the same time; the others wait their turn.
LOOK_S: Final = 30.0  # A plan of 5,000 tasks takes one second.
WAIT_S: Final = 60.0  # So long a text waits for its turn and its answer.
CHILD_MODULE: Final = "planloop.server.edit.compile_child"


class CompilePool:
    """Where texts are looked at. `close` ends what is still there."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._threads = anyio.CapacityLimiter(2 * AT_ONCE)  # One that was given up may take a moment to notice.
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def run(self, work: Callable[[*Arguments], Result], *given: *Arguments) -> Result:
        """What `work` gives for `given`, all of which is pickled. Raises CommandError when that takes too long."""
        try:
            with anyio.fail_after(WAIT_S):
                async with self._limiter:
                    return await self._run(work, given)
        except TimeoutError:
            hint = "a smaller plan is looked at faster; plan apply takes the file itself"
            raise CommandError(ExitCode.TIMEOUT, f"the text was not compiled within {LOOK_S:.0f} s", hint) from None
        except (OSError, EOFError):
            raise CommandError(ExitCode.FAILED, "the process that compiles the text was ended", "ask again") from None

    def close(self) -> None:
        """Ends the processes."""
        while self._all:
            self._all.pop().end()
        self._idle.clear()

    async def _run(self, work: Callable[[*Arguments], Result], given: tuple[*Arguments]) -> Result:
        one = self._free()
        is_done = False
        try:
            with anyio.fail_after(LOOK_S):
                # Left to itself when nobody waits any more: it ends with the process that it reads from.
                found: Result = await anyio.to_thread.run_sync(
                    partial(one.ask, work, given), limiter=self._threads, abandon_on_cancel=True
                )
            is_done = True
            return found
        finally:
            if is_done:
                self._idle.append(one)
            else:
                self._all.discard(one)
                one.end()

    def _free(self) -> _Child:
        """A process that waits for a text; those that gave up waiting are buried on the way."""
        while self._idle:
            one = self._idle.pop()
            if one.is_alive:
                return one
            self._all.discard(one)
            one.end()
        one = _Child()
        self._all.add(one)
        return one


class _Child:
    """One process. Started at once, so that it loads what it needs while it is asked."""

    def __init__(self) -> None:
        # Its own session: Ctrl-C is for whoever started it, and it ends when that does.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", CHILD_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, work: object, given: object) -> Any:
        """Its answer. Raises OSError and EOFError when it is gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        compile_child.write_value(self._process.stdin, (work, given))
        return compile_child.read_value(self._process.stdout)

    def end(self) -> None:
        """Kills it, if it is still there, and takes note of its end."""
        self._process.kill()
        with suppress(OSError), self._process:  # What it was not told any more cannot be written.
            pass
