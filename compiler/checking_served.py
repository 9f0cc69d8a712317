"""Checks that speak to a program, `http` and `ws`: what is wrong with one is told where it stands in the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from compiler.faults import Faults, Pointer
from schemas.encoding import Json, JsonObject
from schemas.fault_at import FaultAt
from schemas.http_check import http_faults
from schemas.ws_check import ws_faults


class _Tell(Protocol):
    def __call__(self, arguments: JsonObject, *, has_url: bool) -> Iterator[FaultAt]: ...


_BY_KIND: Final[Mapping[str, _Tell]] = MappingProxyType({"http": http_faults, "ws": ws_faults})


def check_served(kind: str, value: Json, to: Pointer, faults: Faults, *, has_url: bool = False) -> None:
    """Tells of a check of `kind` that is written at `to`. `has_url`: where the program is is said elsewhere."""
    tell = _BY_KIND.get(kind)
    if tell is None or isinstance(value, str):
        return
    is_list = isinstance(value, list)
    for fault in tell({"steps": value} if is_list else value, has_url=has_url):
        place = (*to, *(fault.at[1:] if is_list and fault.at else fault.at))
        if fault.code != "P0210" or not faults.is_at(place):  # What lacks there may be just what was wrong.
            _teller(fault, faults)(fault.code, fault.summary, fault.hint, to=place)


def _teller(fault: FaultAt, faults: Faults) -> Callable[..., None]:
    return faults.on_key if fault.is_key else faults.add
