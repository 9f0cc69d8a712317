"""From the arguments of the `task` tool to a task of the plan document.

What it does not know it passes on as it stands: the gate's schema says what is wrong with it, in words.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypedDict

from pydantic import Field

from controllers.agent.tools.faults import ToolFailed
from schemas import limits
from schemas.encoding import Json, JsonObject

OF_AGENT: Final = ("model", "tools", "deny", "effects", "script", "python", "prompt")


class TaskFields(TypedDict, total=False):
    """What a child task may be told. Other fields of a task go into `tasks` or `edit_plan`."""

    goal: Annotated[str | None, Field(description="What is to be true at the end.")]
    id: Annotated[str | None, Field(description="Its name; made from the goal when left out.")]
    instructions: Annotated[str | None, Field(description="Its system prompt, as text.")]
    prompt: Annotated[str | None, Field(description="Its system prompt: `lib:name`, a file or text.")]
    agent: Annotated[Any, Field(description="Who does it: the name of an agent, or a map of an agent's fields.")]
    model: str | None
    tools: list[str] | None
    budget: dict[str, Any] | None
    acceptance: Annotated[list[Any] | None, Field(description="Checks that must hold, as in `{sh: npm test}`.")]
    needs: Annotated[list[str] | None, Field(description="Ids of tasks that must be done first.")]
    run: Annotated[Any, Field(description="A command that does it, instead of an agent.")]
    cwd: str | None
    notes: str | None
    retries: int | None
    effects: dict[str, str] | None
    script: list[Any] | None
    tasks: Annotated[list[dict[str, Any]] | None, Field(description="Several children at once, each as one map.")]


def sketched(raw: Json) -> tuple[str, JsonObject]:
    """The id and the document form of one task. Raises ToolFailed."""
    if not isinstance(raw, dict):
        raise ToolFailed("BadArguments", "a task is a map with a goal")
    fields = {key: value for key, value in raw.items() if value is not None}
    goal = fields.get("goal")
    name = str(fields.pop("id", "") or _slug(goal))
    if not name:
        raise ToolFailed("BadArguments", "a task has a goal or an id")
    if "instructions" in fields:
        fields["prompt"] = fields.pop("instructions")
    own = {key: fields.pop(key) for key in OF_AGENT if key in fields}
    if own:
        fields["agent"] = _with(fields.get("agent"), own)
    if isinstance(children := fields.get("tasks"), list):
        fields["tasks"] = dict(sketched(child) for child in children)
    return name, fields


def _with(agent: Json, own: JsonObject) -> JsonObject:
    """An agent with some fields of its own: a name becomes what it extends."""
    if agent is None:
        return own
    if isinstance(agent, str):
        return {"extends": agent, **own}
    if isinstance(agent, dict):
        return {**agent, **own}
    raise ToolFailed("BadArguments", "`agent` is a name or a map")


def _slug(goal: Json) -> str:
    words = re.findall(r"[a-z0-9]+", str(goal or "").lower())
    return "-".join(words)[: limits.TASK_ID_CHARS_MAX].strip("-")
