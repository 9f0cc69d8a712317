"""Validate `calls`, `state` and `abstain` checks when a suite is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planloop.benchmarks.checks import abstain, call_rules, state
from planloop.benchmarks.checks.call_rules import BadCheck, CallRules
from planloop.schemas.canonical_json import Json
from planloop.schemas.diagnostic import ValuePath, ValueProblem

_READ: Final[Mapping[str, Callable[[Json], object]]] = MappingProxyType(
    {"calls": call_rules.parse_call_rules, "state": state.parse_state, "abstain": abstain.parse_abstain}
)

_ASKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "calls": "add `need`, `forbid` or `extra: deny`",
        "state": "add `after`, `tables` or `new`",
    }
)


def check_problems(kind: str, arguments: Json) -> Iterator[ValueProblem]:
    """The first thing that keeps a check of `kind` from being judged; nothing for other kinds."""
    if kind not in _READ:
        return
    try:
        found = _READ[kind](arguments)
    except BadCheck as error:
        yield ValueProblem(error.at, "P0223", str(error), error.hint)
        return
    if not getattr(found, "probes", 1):
        yield ValueProblem((), "P0210", f"this `{kind}` asks for nothing", _ASKS[kind])


def tools_named_in(kind: str, arguments: Json) -> Iterator[tuple[ValuePath, str]]:
    """The tools that a check of `kind` names, but for patterns, each with its place; none of one that has faults."""
    found = _rules(kind, arguments)
    if found is None:
        return
    for at, need in enumerate(found.needs):
        yield from ((("need", str(at), "tool", str(place)), tool) for place, tool in enumerate(need.tools))
    for member, shapes in (("free", found.free), ("forbid", found.forbid)):
        named = ((str(at), shape.tool) for at, shape in enumerate(shapes) if "*" not in shape.tool)
        yield from (((member, at), tool) for at, tool in named)


def _rules(kind: str, arguments: Json) -> CallRules | None:
    try:
        match kind:
            case "calls":
                return call_rules.parse_call_rules(arguments)
            case "abstain":
                return abstain.parse_abstain(arguments)[0]
            case _:
                return None
    except BadCheck:
        return None
