"""One request to a tool server: its waiter, its time limit, questions that the server asks back, and its end.

A request runs in the task of its server's link, not in the caller's, so that it can continue while the caller sleeps
and a person is asked. If the caller is cancelled, the request is cancelled too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio

from planloop.reconciler.engine.reconcile import AttemptFailure, Bug, attempt
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.mcp import ServerFailed

CANCEL_S: Final = 5.0  # For the cancellation message to the server.
ENDED: Final = "the server ended before it answered"

RequestWork: TypeAlias = Callable[[], Awaitable[Any]]
ExplainError: TypeAlias = Callable[[Exception], ServerFailed]


@frozen
class _RequestEnd:
    """The result of a request, or why it has none."""

    outcome: Any = None
    fault: ServerFailed | None = None


@dataclass(slots=True, eq=False)
class _OpenQuestion:
    """A question of the server, and its answer: None is a refusal."""

    asked: JsonObject
    given: JsonObject | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True, eq=False)
class ToolServerRequest:
    """`work` makes the request. It may take `time_s` seconds, not counting the time of open questions."""

    work: RequestWork
    time_s: float
    takes_questions: bool = False
    has_begun: bool = False
    is_late: bool = False
    _question: _OpenQuestion | None = None
    _end: _RequestEnd | None = None
    _is_over: bool = False
    _is_given_up: bool = False
    _taken: anyio.Event = field(default_factory=anyio.Event)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _moved: anyio.Event = field(default_factory=anyio.Event)

    @property
    def question(self) -> JsonObject | None:
        """The open question of the server, or None."""
        return None if self._question is None or self._question.answered.is_set() else self._question.asked

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def perform(self, explain: ExplainError) -> None:
        """Do the work, in the link's task; `explain` converts exceptions of the SDK."""
        self.has_begun = True
        self._taken.set()
        self._scope.deadline = anyio.current_time() + self.time_s
        outcome: Any | AttemptFailure = None
        try:
            with self._scope:
                outcome = await attempt(self.work)
            if self._scope.cancelled_caught:
                self.is_late = not self._is_given_up
                self.fail(ServerFailed("TimedOut", f"it took longer than {self.time_s:g} s", has_begun=True))
            elif isinstance(outcome, Bug):
                self.fail(explain(outcome.error))
            else:
                self._end = _RequestEnd(outcome)
        finally:
            # Without a result here, the link itself has ended.
            if self._end is None:
                self.fail(ServerFailed("Disconnected", ENDED, has_begun=True))
            self._is_over = True
            self._move()

    def fail(self, fault: ServerFailed) -> None:
        """End the request with `fault`, unless it has ended."""
        if not self._is_over and self._end is None:
            self._end = _RequestEnd(fault=fault)
            self._taken.set()
            self._move()

    async def until_taken(self) -> bool:
        """Wait until the request has begun; return False if its server ended first. Cancelling withdraws it."""
        try:
            await self._taken.wait()
        except anyio.get_cancelled_exc_class():
            self.give_up()
            raise
        return self.has_begun

    async def result(self) -> Any:
        """Return the result, or None if the server asks a question first (`question`). Raises ServerFailed.

        Cancelling the caller cancels the request; the server has been notified when this returns.
        """
        try:
            await self._moved.wait()
        except anyio.get_cancelled_exc_class():
            self.give_up()
            with anyio.move_on_after(CANCEL_S, shield=True):
                while self.has_begun and not self._is_over:
                    self._moved = anyio.Event()
                    await self._moved.wait()
            raise
        if self.question is not None and not self._is_over:
            return None
        if self._end is None:
            return None
        if self._end.fault is not None:
            raise self._end.fault
        return self._end.outcome

    async def put(self, question: JsonObject) -> JsonObject | None:
        """Put a question to the caller that waits for the result; return the answer, None for a refusal."""
        asking = self._question = _OpenQuestion(question)
        self._scope.deadline = float("inf")
        self._move()
        try:
            await asking.answered.wait()
        finally:
            self._question = None
            self._scope.deadline = anyio.current_time() + self.time_s
        return asking.given

    def give(self, content: JsonObject | None) -> None:
        """Answer the open question; `result` can then be awaited again."""
        self._moved = anyio.Event()
        if self._question is not None:
            self._question.given = content
            self._question.answered.set()

    def give_up(self) -> None:
        """Cancel the request: its caller no longer waits."""
        self._is_given_up = True
        self._scope.cancel()

    def _move(self) -> None:
        self._moved.set()
