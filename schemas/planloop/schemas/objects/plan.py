"""What the plan object's status says: the applied file, and the primary agent of the session."""

from __future__ import annotations

from typing import Final

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.resource import Resource

# What the status of a plan says that more than one of its controllers asks for.


def plan_file_name(plan: Resource | None) -> str:
    """The name of the plan file that was applied last, without its folder: a fork has it, too. Empty for none."""
    noted = None if plan is None else (plan.status.get("file") or {}).get("path")
    return str(noted).rpartition("/")[2] if noted else ""


# The session: which agent a person talks with who names none, in the status of the plan object.

SESSION_KEY: Final = "session"


def primary_agent(status: JsonObject) -> str:
    """Return the address of the primary agent, empty until a session is moved."""
    return str((status.get(SESSION_KEY) or {}).get("primary", ""))


def primary_agent_merge(to: str, by: str, rev: int) -> JsonObject:
    """What makes the agent at `to` the primary one, to be merged into the status; `rev` is that of the view."""
    return {SESSION_KEY: {"primary": to, "by": by, "since_rev": rev}}
