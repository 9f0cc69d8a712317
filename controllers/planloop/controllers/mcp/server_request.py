"""One request to a tool server: its waiter, its time limit, questions that the server asks back, and its end.

A request runs in the task of its server's link, never in the caller's, so that it can outlive a caller who goes to
sleep while somebody is asked; the caller who is cancelled takes it with him.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio

from planloop.reconciler.engine.reconcile import AttemptFailure, Bug, attempt
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.mcp import ServerFailed

CANCEL_S: Final = 5.0  # For the server to be told that a request is given up.
ENDED: Final = "the server ended before it answered"

RequestWork: TypeAlias = Callable[[], Awaitable[Any]]
ExplainError: TypeAlias = Callable[[Exception], ServerFailed]


@dataclass(slots=True, eq=False)
class ToolServerRequest:
    """`work` does it, for at most `time_s`, in which the time that a question is open does not count.

    `question` is what the server asks back, while nobody has answered.
    """

    work: RequestWork
    time_s: float
    takes_questions: bool = False
    has_begun: bool = False
    is_late: bool = False
    question: JsonObject | None = None
    _given: JsonObject | None = None
    _outcome: Any = None
    _fault: ServerFailed | None = None
    _is_over: bool = False
    _is_given_up: bool = False
    _taken: anyio.Event = field(default_factory=anyio.Event)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _moved: anyio.Event = field(default_factory=anyio.Event)
    _answered: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def perform(self, explain: ExplainError) -> None:
        """Does the work, in the link's own task; `explain` puts into words what the SDK raised."""
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
                self._outcome = outcome
        finally:
            # Whatever is in the way here is the link's own end.
            if self._outcome is None and self._fault is None:
                self.fail(ServerFailed("Disconnected", ENDED, has_begun=True))
            self._is_over = True
            self._move()

    def fail(self, fault: ServerFailed) -> None:
        """Ends it with `fault`, unless it has ended."""
        if not self._is_over and self._fault is None:
            self._fault = fault
            self._taken.set()
            self._move()

    async def until_taken(self) -> bool:
        """Whether it is taken up; False when its server ended before that. A caller who is cancelled takes it back."""
        try:
            await self._taken.wait()
        except anyio.get_cancelled_exc_class():
            self.give_up()
            raise
        return self.has_begun

    async def result(self) -> Any:
        """What came of it, None when the server asks something first (`question`). Raises ServerFailed.

        A caller who is cancelled cancels the request; the server has been told when this returns.
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
        if self._fault is not None:
            raise self._fault
        return self._outcome

    async def put(self, question: JsonObject) -> JsonObject | None:
        """Asks whoever waits for the result; the answer, None for a refusal."""
        self.question = question
        self._answered = anyio.Event()
        self._scope.deadline = float("inf")
        self._move()
        try:
            await self._answered.wait()
        finally:
            self.question = None
            self._scope.deadline = anyio.current_time() + self.time_s
        return self._given

    def give(self, content: JsonObject | None) -> None:
        """Answers the open question; `result` can then be awaited again."""
        self._given = content
        self._moved = anyio.Event()
        self.question = None
        self._answered.set()

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._is_given_up = True
        self._scope.cancel()

    def _move(self) -> None:
        self._moved.set()
