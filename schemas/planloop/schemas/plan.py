"""What the status of a plan says that more than one of its controllers asks for."""

from __future__ import annotations

from planloop.schemas.resource import Resource


def file_name(plan: Resource | None) -> str:
    """The name of the plan file that was applied last, without its folder: a fork has it, too. Empty for none."""
    noted = None if plan is None else (plan.status.get("file") or {}).get("path")
    return str(noted).rpartition("/")[2] if noted else ""
