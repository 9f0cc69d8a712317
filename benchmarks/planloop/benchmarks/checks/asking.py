"""What cannot be asked though it has the right form, told when a suite is read: `calls`, `state` and `abstain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planloop.benchmarks.checks import abstain, rules, state
from planloop.benchmarks.checks.rules import BadCheck, Rules
from planloop.schemas.encoding import Json
from planloop.schemas.fault_at import FaultAt, Place

_READ: Final[Mapping[str, Callable[[Json], object]]] = MappingProxyType(
    {"calls": rules.read, "state": state.read, "abstain": abstain.read}
)

_ASKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "calls": "add `need`, `forbid` or `extra: deny`",
        "state": "add `after`, `tables` or `new`",
    }
)


def faults(kind: str, arguments: Json) -> Iterator[FaultAt]:
    """The first thing that keeps a check of `kind` from being judged; nothing for other kinds."""
    if kind not in _READ:
        return
    try:
        found = _READ[kind](arguments)
    except BadCheck as error:
        yield FaultAt(error.at, "P0223", str(error), error.hint)
        return
    if not getattr(found, "probes", 1):
        yield FaultAt((), "P0210", f"this `{kind}` asks for nothing", _ASKS[kind])


def tools_named(kind: str, arguments: Json) -> Iterator[tuple[Place, str]]:
    """The tools that a check of `kind` names, but for patterns, each with its place; none of one that has faults."""
    found = _rules(kind, arguments)
    if found is None:
        return
    for at, need in enumerate(found.needs):
        yield from ((("need", str(at), "tool", str(place)), tool) for place, tool in enumerate(need.tools))
    for member, shapes in (("free", found.free), ("forbid", found.forbid)):
        named = ((str(at), shape.tool) for at, shape in enumerate(shapes) if "*" not in shape.tool)
        yield from (((member, at), tool) for at, tool in named)


def _rules(kind: str, arguments: Json) -> Rules | None:
    try:
        match kind:
            case "calls":
                return rules.read(arguments)
            case "abstain":
                return abstain.read(arguments)[0]
            case _:
                return None
    except BadCheck:
        return None
