"""Input and output of checks of an agent's actions (`calls`, `state`, `abstain`, `log`).

Each check is one pure function `judge(arguments, evidence)`. The evidence is folded from the log after the attempt has
ended. Checks that run a program are in `planloop.controllers.task.checks`.
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
    """One call as the agent made it, without calls that only end a turn (`done`, `fail`).

    `tool` is the name in the suite. `fault` says why the call is malformed, empty if it is well formed; arguments that
    do not match the tool's schema do not make it malformed. `state` is the call's last state
    (`planloop.schemas.objects.call`), `result` the text that the agent read. `is_invented`: the call was refused
    because the agent has no such tool.
    """

    tool: str
    arguments: JsonObject
    fault: str = ""
    state: str = "Succeeded"
    result: str = ""
    is_invented: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether the result reported a failure to the agent."""
        return self.state not in ("Succeeded", "Unknown")


@frozen
class Evidence:
    """Everything known about an attempt: all calls in order, including malformed ones, and the agent's final answer.

    `offered` are all tools that the agent was shown; `near` and `far` are the decoys among them. `world` and `end` are
    the simulated world before and after the attempt, None if the case has no world. `records` are rows about the case
    from the log, for the check `log`.
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
"""Judge an attempt with the arguments of a check. Invalid arguments give the result `error`; nothing is raised."""
