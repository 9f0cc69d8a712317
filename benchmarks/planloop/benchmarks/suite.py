"""A suite as frozen values: cases, proofs and worlds, with the content of all files that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Literal

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CASE_S
from planloop.schemas.objects.task import CheckSpec


@frozen
class ScriptedAct:
    """A scripted agent: writes `files` (texts by path), makes `calls` and answers `says`; or runs `script`.

    `kills` are the checks that must fail for a mutant.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[JsonObject, ...] = ()
    says: str = ""
    script: tuple[JsonObject, ...] | None = None
    kills: tuple[str, ...] = ()


@frozen
class CaseSetting:
    """What the agent of a case works with: `files` by path, an image and tools; and the program that the checks call.

    `decoys`, `world` and `serve` have the form of the suite file, with defaults; None if the case has none.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    tools: tuple[str, ...] | None = None
    decoys: JsonObject | None = None
    world: JsonObject | None = None
    serve: JsonObject | None = None


@frozen
class CasePlan:
    """The parts of a run's plan that a case defines: its agent, other agents, its task and its limits."""

    agent: JsonObject = field(default_factory=dict)
    agents: JsonObject = field(default_factory=dict)
    task: JsonObject = field(default_factory=dict)
    budget: JsonObject = field(default_factory=dict)
    within_s: float = CASE_S


@frozen
class CaseProofs:
    """The agents of a case with a known verdict. `standard` stands for the cheats of every case."""

    oracles: Mapping[str, ScriptedAct] = field(default_factory=dict)
    mutants: Mapping[str, ScriptedAct] = field(default_factory=dict)
    cheats: Mapping[str, ScriptedAct] | Literal["standard"] = field(default_factory=dict)


@frozen
class Case:
    """One case in one language. `base` is the id in the suite; `id` is the same, or `<base>-<language>`."""

    id: str
    base: str
    prompts: tuple[str, ...]
    checks: tuple[CheckSpec, ...]
    about: str = ""
    language: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    setting: CaseSetting = CaseSetting()
    plan: CasePlan = CasePlan()
    proofs: CaseProofs = CaseProofs()
    soft: tuple[Json, ...] = ()
    check_files: Mapping[str, str] = field(default_factory=dict)


@frozen
class Suite:
    """A suite. `worlds` and `pools` are the parsed files by the names that cases use."""

    name: str
    about: str
    seed: int
    trials: int
    report: JsonObject
    cases: Mapping[str, Case]
    worlds: Mapping[str, Json] = field(default_factory=dict)
    pools: Mapping[str, Json] = field(default_factory=dict)

    def chosen(self, pattern: str) -> list[Case]:
        """The cases whose id matches the glob `pattern`."""
        return [case for case in self.cases.values() if fnmatchcase(case.id, pattern)]


@frozen
class ReadSuite:
    """The result of parsing. `suite` is None if a diagnostic is an error. `texts` are the sources by file name."""

    suite: Suite | None
    diagnostics: tuple[Diagnostic, ...]
    texts: Mapping[str, str]
