"""Input and output of checks of an agent's actions (`calls`, `state`, `abstain`, `log`).

Each is one function `judge(arguments, evidence)`, pure: the evidence is folded from the log once the attempt has ended,
and the same evidence always gets the same answer. Checks that run something live in
`planloop.controllers.task.checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from planloop.benchmarks.worlds.world import SimulatedWorld
from planloop.controllers.task.checks.run import CheckFinding, FindingResult
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class EmittedCall:
    """One call as the agent made it. Whoever folds the log leaves out the calls that only end a turn (`done`, `fail`).

    `tool` is the name that the suite gives it. `fault` says why nobody could read the call, empty when it was well
    formed; arguments that do not fit the tool are no such fault. `state` is the last of the call
    (`planloop.schemas.objects.call`), `result` what the agent read. `is_invented`: it was turned down because the agent
    has no such tool.
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
    """What is known of an attempt: all calls in order, malformed ones too, and the last words of the agent.

    `offered` are all tools that it was shown; `near` and `far` those among them that were drawn as decoys.
    `world` is the simulated world as the agent found it, `end` as it left it: both None where the case has none.
    `records` are the records of the log that are about the case, for `log`.
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


@frozen
class CheckJudgement:
    """What a check found. `figures` are soft: numbers by name, shown and never added up to a verdict.

    `probes` is how many things were looked at: a pass of none is `invalid`. `evidence` is kept beside the verdict.
    """

    result: FindingResult
    message: str
    probes: int = 1
    figures: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, bytes] = field(default_factory=dict)

    def finding(self) -> CheckFinding:
        """The same as a check of a task says it."""
        return CheckFinding(self.result, self.message, probes=self.probes, evidence=self.evidence, figures=self.figures)


class CheckJudge(Protocol):
    """`arguments` is what stands under the check's kind. One that cannot be used gives an `error`, no exception."""

    def __call__(self, arguments: JsonObject, evidence: Evidence) -> CheckJudgement: ...
