"""The work plane: jobs that take time, in bounded pools, beside the control plane that is never blocked.

A job belongs to an address and has a key; starting a key that is live does nothing. Cancelling a job cancels its
scope: the job's own clean-up stops its effect, and its record says so. What is live is observable, so a controller
can compare it with what should be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class WorkPlane(Protocol):
    """`pool` names a bound: `tools`, `models`, `models:<pattern>`, or `free` for jobs that only wait."""

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        """Queues `job`; it runs when `pool` has room, higher priority first. A live or queued key is left alone.

        When the job ends, however it ends, `owner` is reconciled; but for a job that says (`went_on` is true of it)
        that its last act, with nothing awaited after it, was to take its owner's next steps itself.
        """
        ...

    def cancel(self, key: str) -> None:
        """Takes a queued job out, or cancels the scope of a running one. Returns at once; unknown keys are ignored."""
        ...

    def is_live(self, key: str) -> bool:
        """Whether the job is queued, running or still cleaning up."""
        ...

    def is_running(self, key: str) -> bool:
        """Whether the job has its slot in the pool."""
        ...

    def live_for(self, owner: str) -> Sequence[str]:
        """The keys of live jobs of `owner`."""
        ...

    def driving(self, address: str) -> AbstractContextManager[None]:
        """While it holds, what is written does not wake `address`: whoever writes it takes its next steps already."""
        ...

    def poke(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        """Asks the engine to reconcile `address`. Only a hint: state decides what happens."""
        ...
