"""The steps that web checks lend each other: `reuse` names another check, whose steps are put in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject

Flows: TypeAlias = Mapping[str, Json]
"""Steps by the id of the check that has them."""


def flows_of(checks: Iterable[tuple[str, JsonObject]]) -> Flows:
    """The steps that others may reuse: those of web checks with `can`, by the id of the check."""
    return {
        id_: check["web"]["can"]
        for id_, check in checks
        if isinstance(check.get("web"), dict) and "can" in check["web"]
    }


def without_reuse(arguments: JsonObject, flows: Flows) -> JsonObject:
    """The same check with the steps themselves in place of each `reuse`, so that it can be run alone."""
    steps: JsonObject = {name: _expanded(arguments[name], flows, 0) for name in ("can", "never") if name in arguments}
    return arguments | steps


def _expanded(steps: Json, flows: Flows, depth: int) -> list[Json]:
    if depth > limits.WEB_REUSED_DEEP_MAX:
        return []
    found: list[Json] = []
    for step in steps if isinstance(steps, list) else [steps]:
        flow = flows.get(step["reuse"]) if isinstance(step, dict) and isinstance(step.get("reuse"), str) else None
        found.extend([step] if flow is None else _expanded(flow, flows, depth + 1))
    return found
