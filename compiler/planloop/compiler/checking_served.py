"""Checks that speak to a program, `http`, `ws` and `web`: what is wrong is told where it stands in the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from planloop.compiler.faults import Faults, Pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.fault_at import FaultAt
from planloop.schemas.web_flows import Flows

_KINDS: Final = ("http", "ws")


def _found(kind: str, arguments: JsonObject, *, timeout_s: float, has_url: bool) -> Iterator[FaultAt]:
    # Patterns take some milliseconds to import, and most plans have no such check.
    if kind == "http":
        from planloop.schemas.http_check import http_faults  # noqa: PLC0415 - as above

        return http_faults(arguments, has_url=has_url)
    from planloop.schemas.ws_check import ws_faults  # noqa: PLC0415 - as above

    return ws_faults(arguments, has_url=has_url, timeout_s=timeout_s)


def check_served(
    kind: str, value: Json, to: Pointer, faults: Faults, *, timeout_s: float, has_url: bool = False
) -> None:
    """Tells of a check of `kind` that is written at `to` and may take `timeout_s`.

    `has_url`: where the program is is said elsewhere.
    """
    if kind not in _KINDS or isinstance(value, str):
        return
    is_list = isinstance(value, list)
    for fault in _found(kind, {"steps": value} if is_list else value, timeout_s=timeout_s, has_url=has_url):
        _tell(fault, (*to, *(fault.at[1:] if is_list and fault.at else fault.at)), faults)


def check_web(check: JsonObject, to: Pointer, faults: Faults, flows: Flows, *, has_url: bool = False) -> None:
    """Tells of a web check that is written at `to`, and may reuse `flows`."""
    from planloop.schemas.web_reading import web_faults  # noqa: PLC0415 - a dozen milliseconds, and most plans have no such check

    for fault in web_faults(check, has_url=has_url, flows=flows):
        _tell(fault, (*to, *fault.at), faults)


def _tell(fault: FaultAt, place: Pointer, faults: Faults) -> None:
    if fault.code != "P0210" or not faults.is_at(place):  # What lacks there may be just what was wrong.
        _teller(fault, faults)(fault.code, fault.summary, fault.hint, to=place)


def _teller(fault: FaultAt, faults: Faults) -> Callable[..., None]:
    return faults.on_key if fault.is_key else faults.add
