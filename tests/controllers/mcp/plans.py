"""Plans with tool servers, as text for an arena."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.controllers.agent.arena import Arena
from tests.product import Json, JsonObject

TRICKY = Path(__file__).parents[2] / "servers" / "tricky.py"


def tricky(notes: Path | None = None, **more: Json) -> JsonObject:
    """The server that does everything wrong."""
    env = {} if notes is None else {"TRICKY_NOTES": str(notes)}
    return {"command": [sys.executable, str(TRICKY)], "env": env, **more}


def plan(servers: JsonObject, *script: JsonObject, tools: list[str] | None = None, **agent: Json) -> str:
    """A plan whose one agent takes these steps."""
    document = {"mcp": servers, "agent": {"tools": tools or [*servers], "script": [*script], **agent}}
    return written(document)


def written(document: JsonObject) -> str:
    """The lines of a plan."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in document.items())


def call(tool: str, **arguments: Json) -> JsonObject:
    return {"call": {tool: arguments}}


OK: JsonObject = {"expect": {"ok": True}}
BAD: JsonObject = {"expect": {"ok": False}}  # A script that expects a failure goes on.
DONE: JsonObject = {"done": "over"}


async def texts(here: Arena, tool: str = "") -> list[str]:
    """What the calls of a tool came to, in order."""
    return [str(result["text"]) for result in await here.results(tool)]
