"""Compile texts in separate processes, with limits on time and number.

A process (`compile_child.py`) is kept for the next text, and ends after some idle minutes. If a text takes too long,
only its process is killed.
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

AT_ONCE: Final = 2  # Texts that are compiled at the same time. Others wait.
LOOK_S: Final = 30.0  # To compile a text. A plan of 5,000 tasks takes one second.
WAIT_S: Final = 60.0  # To wait for a free process and for the result.
CHILD_MODULE: Final = "planloop.server.edit.compile_child"


class CompilePool:
    """A pool of compile processes. `close` ends them."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._threads = anyio.CapacityLimiter(2 * AT_ONCE)  # Twice, because an abandoned thread may end a little later.
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def run(self, work: Callable[[*Arguments], Result], *given: *Arguments) -> Result:
        """Return the result of `work(*given)`, computed in a child process. Raises CommandError if it takes too long.

        `work`, its arguments and its result are pickled.
        """
        try:
            with anyio.fail_after(WAIT_S):
                async with self._limiter:
                    return await self._run(work, given)
        except TimeoutError:
            hint = "split the plan, or apply the file with plan apply"
            raise CommandError(ExitCode.TIMEOUT, f"the text was not compiled within {LOOK_S:.0f} s", hint) from None
        except (OSError, EOFError):
            raise CommandError(ExitCode.FAILED, "the process that compiles the text ended", "try again") from None

    def close(self) -> None:
        """End the processes."""
        while self._all:
            self._all.pop().end()
        self._idle.clear()

    async def _run(self, work: Callable[[*Arguments], Result], given: tuple[*Arguments]) -> Result:
        one = self._free()
        is_done = False
        try:
            with anyio.fail_after(LOOK_S):
                # An abandoned thread ends when the process that it reads from is killed.
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
        """Return an idle or new process. Remove idle processes that have ended."""
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
    """One compile process. It loads its modules while the first request is written."""

    def __init__(self) -> None:
        # In a new session, so that Ctrl-C reaches only the gateway. The child ends when the gateway does.
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
        """Send a request and return the answer. Raises OSError or EOFError if the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        compile_child.write_value(self._process.stdin, (work, given))
        return compile_child.read_value(self._process.stdout)

    def end(self) -> None:
        """Kill the process, if it is running, and wait for its end."""
        self._process.kill()
        with suppress(OSError), self._process:  # Closing the pipe fails if a request is not completely written.
            pass
