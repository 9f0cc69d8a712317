"""What cannot be asked though it has the right form, told when a suite is read: `calls`, `state` and `abstain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from benchmarks.checks import abstain, rules, state
from benchmarks.checks.rules import BadCheck
from schemas.encoding import Json
from schemas.fault_at import FaultAt

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
