"""The session: which agent a person talks with who names none, in the status of the plan object."""

from __future__ import annotations

from typing import Final

from planloop.schemas.encoding import JsonObject

KEY: Final = "session"


def primary_of(status: JsonObject) -> str:
    """The address of the primary agent; empty while nobody has moved the session."""
    return str((status.get(KEY) or {}).get("primary", ""))


def moved(to: str, by: str, rev: int) -> JsonObject:
    """What makes the agent at `to` the primary one, to be merged into the status; `rev` is that of the view."""
    return {KEY: {"primary": to, "by": by, "since_rev": rev}}
