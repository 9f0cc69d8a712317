"""What the gate said, as an ending: every fault with its rule, every cure once, and the code of the gravest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planloop.app.exits import Exit, Halt
from planloop.cli.rendering.records import short_path
from planloop.schemas.encoding import JsonObject

EXIT_OF_RULE: Final[Mapping[str, Exit]] = {"schema": Exit.INVALID, "conflict": Exit.CONFLICT, "stale": Exit.CONFLICT}


def refusal(verdict: JsonObject) -> Halt:
    """The ending for a refused patch."""
    faults = verdict["faults"]
    lines = [fault_line(fault) for fault in faults]
    hints = dict.fromkeys(fault["hint"] for fault in faults if fault["hint"])
    return Halt(exit_of(faults), "\n".join(lines), "\n".join(hints), label="refused")


def exit_of(faults: Sequence[JsonObject]) -> Exit:
    """The code of the gravest fault: not allowed, then not up to date, then not a plan."""
    codes = {EXIT_OF_RULE.get(fault["rule"], Exit.REFUSED) for fault in faults}
    return next((code for code in (Exit.REFUSED, Exit.CONFLICT, Exit.INVALID) if code in codes), Exit.REFUSED)


def fault_line(fault: JsonObject) -> str:
    """Where it is, what it is, and by which rule."""
    where = f"{short_path(tuple(fault['path']))}: " if fault["path"] else ""
    return f"{where}{fault['message']} ({fault['rule']})"
