"""Input and output of checks of an agent's actions (`calls`, `state`, `abstain`, `log`).

Each is one function `judge(arguments, evidence)`, pure: the evidence is folded from the log once the attempt has ended,
and the same evidence always gets the same answer. Checks that run something live in
`planloop.controllers.task.checks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from planloop.benchmarks.worlds.world import SimulatedWorld
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class EmittedCall:
    """One call as the agent made it. Calls that only end a turn (`done`, `fail`) are left out by the fold.

    `tool` is the name in the suite. `fault` says why the call is unreadable, empty if it was well formed; arguments
    that do not fit the tool are not such a fault. `state` is the call's last (`planloop.schemas.objects.call`),
    `result` what the agent read. `is_invented`: it was refused because the agent has no such tool.
    """

    tool: str
    arguments: JsonObject
    fault: str = ""
    state: str = "Succeeded"
    result: str = ""
    is_invented: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether the agent was told that it did not work."""
        return self.state not in ("Succeeded", "Unknown")


@frozen
class Evidence:
    """Everything known about an attempt: all calls in order, also malformed ones, and the agent's last words.

    `offered` are all tools that the agent was shown; `near` and `far` those among them that were drawn as decoys.
    `world` is the simulated world as the agent found it, `end` as it left it: None if the case has none. `records` are
    the log's records about the case, for `log`.
    """

    calls: tuple[EmittedCall, ...] = ()
    said: str = ""
    offered: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()
    world: SimulatedWorld | None = None
    end: SimulatedWorld | None = None
    records: tuple[JsonObject, ...] = ()

    @property
    def decoys(self) -> frozenset[str]:
        return self.near | self.far


CheckJudge: TypeAlias = Callable[[JsonObject, Evidence], CheckFinding]
"""Judges an attempt by the arguments of the check's kind. Invalid arguments give an `error`, no exception."""
