"""A run as `plan.json` holds it: everything that can change a verdict, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planloop.schemas.canonical_json import JsonObject, canonical_bytes, sha256_hex
from planloop.schemas.frozen import frozen

FORMAT = 1
SCORING = 2
"""Raised when the same doings would be judged otherwise."""
_NAME: Final = re.compile(r"\w[\w.-]*")


@frozen
class RunEntry:
    """One case tried once by one contestant. `variant` is the index of its prompt, `key` the digest of what decides.

    `case_key` is the digest of what was given: equal for contestants that were given the same.
    """

    name: str
    case: str
    model: str
    trial: int
    variant: int
    key: str
    case_key: str
    agent: JsonObject

    def to_json(self) -> JsonObject:
        return {
            "case": self.case,
            "model": self.model,
            "trial": self.trial,
            "variant": self.variant,
            "key": self.key,
            "case_key": self.case_key,
            "agent": self.agent,
        }


@frozen
class CompiledRun:
    """A run. `cases` are maps of what a case is (`planloop.benchmarks.runs.run_compiler`), `entries` by name, in
    order.

    `is_validated`: whether all cases were found to be valid; None when that is not known. It decides no verdict.
    `scoring` are the rules that it is judged by: of another version of planloop they may be others than `SCORING`.
    """

    suite: str
    about: str
    seed: int
    trials: int
    deterministic: bool
    report: JsonObject
    models: Mapping[str, JsonObject]
    images: Mapping[str, str]
    cases: Mapping[str, JsonObject]
    entries: Mapping[str, RunEntry]
    worlds: Mapping[str, JsonObject]
    is_validated: bool | None = None
    scoring: int = SCORING

    def to_json(self) -> JsonObject:
        return {
            "format": FORMAT,
            "scoring": self.scoring,
            "suite": self.suite,
            "about": self.about,
            "seed": self.seed,
            "trials": self.trials,
            "deterministic": self.deterministic,
            "validated": self.is_validated,
            "report": self.report,
            "models": list(self.models.values()),  # A list, which keeps their order.
            "images": dict(self.images),
            "cases": dict(self.cases),
            "entries": {name: entry.to_json() for name, entry in self.entries.items()},
            "worlds": dict(self.worlds),
        }

    @property
    def digest(self) -> str:
        """Of the bytes of `plan.json`."""
        return sha256_hex(canonical_bytes(self.to_json()))


def compiled_run_from_json(raw: JsonObject) -> CompiledRun:
    """Inverse of `CompiledRun.to_json`. Raises KeyError, TypeError, ValueError for a file of another form."""
    if raw["format"] != FORMAT:
        raise ValueError(f"its format is {raw['format']}, not {FORMAT}")
    compiled = CompiledRun(
        suite=raw["suite"],
        about=raw["about"],
        seed=raw["seed"],
        trials=raw["trials"],
        deterministic=raw["deterministic"],
        report=raw["report"],
        models={model["name"]: model for model in raw["models"]},
        images=raw["images"],
        cases=raw["cases"],
        entries={name: RunEntry(name, **entry) for name, entry in raw["entries"].items()},
        worlds=raw["worlds"],
        is_validated=raw["validated"],
        scoring=raw["scoring"],
    )
    for name, entry in compiled.entries.items():
        if not _NAME.fullmatch(name):  # Folders are called so.
            raise ValueError(f"no entry can be called {name}")
        if entry.case not in compiled.cases:
            raise ValueError(f"there is no case {entry.case}")
    return compiled
