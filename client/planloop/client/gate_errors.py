"""Turn a refused patch into a command error: every violation with its rule, fix and exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.render.records import short_path
from planloop.schemas.canonical_json import JsonObject

EXIT_OF_RULE: Final[Mapping[str, ExitCode]] = {
    "schema": ExitCode.INVALID,
    "conflict": ExitCode.CONFLICT,
    "stale": ExitCode.CONFLICT,
}


def refused_error(verdict: JsonObject) -> CommandError:
    """The ending for a refused patch."""
    faults = verdict["faults"]
    lines = [violation_line(fault) for fault in faults]
    hints = dict.fromkeys(fault["hint"] for fault in faults if fault["hint"])
    return CommandError(exit_code_of_rule(faults), "\n".join(lines), "\n".join(hints), label="refused")


def exit_code_of_rule(faults: Sequence[JsonObject]) -> ExitCode:
    """The code of the gravest fault: not allowed, then not up to date, then not a plan."""
    codes = {EXIT_OF_RULE.get(fault["rule"], ExitCode.REFUSED) for fault in faults}
    return next(
        (code for code in (ExitCode.REFUSED, ExitCode.CONFLICT, ExitCode.INVALID) if code in codes), ExitCode.REFUSED
    )


def violation_line(fault: JsonObject) -> str:
    """Where it is, what it is, and by which rule."""
    where = f"{short_path(tuple(fault['path']))}: " if fault["path"] else ""
    return f"{where}{fault['message']} ({fault['rule']})"
