"""Expand `reuse` in web checks: replace it with the steps of the named check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject

ReusableSteps: TypeAlias = Mapping[str, Json]
"""Steps by the id of the check that has them."""


def reusable_steps(checks: Iterable[tuple[str, JsonObject]]) -> ReusableSteps:
    """The steps that others may reuse: those of web checks with `can`, by the id of the check."""
    return {
        id_: check["web"]["can"]
        for id_, check in checks
        if isinstance(check.get("web"), dict) and "can" in check["web"]
    }


def expand_reuse(arguments: JsonObject, flows: ReusableSteps) -> JsonObject:
    """The same check with the steps themselves in place of each `reuse`, so that it can be run alone."""
    steps: JsonObject = {name: _expanded(arguments[name], flows, 0) for name in ("can", "never") if name in arguments}
    return arguments | steps


def _expanded(steps: Json, flows: ReusableSteps, depth: int) -> list[Json]:
    if depth > limits.WEB_REUSED_DEEP_MAX:
        return []
    found: list[Json] = []
    for step in steps if isinstance(steps, list) else [steps]:
        flow = flows.get(step["reuse"]) if isinstance(step, dict) and isinstance(step.get("reuse"), str) else None
        found.extend([step] if flow is None else _expanded(flow, flows, depth + 1))
    return found
