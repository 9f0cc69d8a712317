"""`hook`: attaches a hook to the agent itself or to one below it, as a patch through the gate.

What the new hook may do comes from where it is set, like the rights of a child: the gate says whether its program or
its model is within the author's. A hook that makes one sets it on the agent that it watches.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypedDict, Unpack

from pydantic import BeforeValidator, Field

from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.patching import document, submit
from planloop.controllers.agent.tools.tool import Context, Settlement
from planloop.schemas import pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.hook import Point
from planloop.schemas.patching import Op
from planloop.schemas.rule import CONDITIONS, EFFECTS

AS_WRITTEN: Final = ("on", "match", "rule", "run", "extends", "settings", "expires", "budget")
"""Fields of a hook that are in the document what they are here."""

OF_AGENT: Final = ("prompt", "model", "tools")

RULE: Final = (
    'Clauses from the top, as in `[{when: {call: "shell(git push*)"}, deny: leave that to people}]`. `when` may say '
    f"{', '.join(CONDITIONS)}; a clause may {', '.join(name for name in EFFECTS if name != 'consult')}."
)
"""A model that makes a rule knows the words by this alone; what they take it is told when it is wrong."""


def _listed(value: Json) -> Json:
    """One point is a list of one: models and scripts write both."""
    return [value] if isinstance(value, str) else value


class HookFields(TypedDict, total=False):
    """What a hook may be told; the gate's schema says what is wrong with it, in words."""

    on: Annotated[list[Point] | None, BeforeValidator(_listed), Field(description="When it is asked.")]
    to: Annotated[str | None, Field(description="Whom it watches: a child's path below you; blank, yourself.")]
    match: Annotated[str | None, Field(description="Only calls like this, as in `write(src/**)`.")]
    prompt: Annotated[str | None, Field(description="What an agent that thinks it over is to watch out for.")]
    model: Annotated[str | None, Field(description="What it thinks with; blank, what you do.")]
    tools: Annotated[list[str] | None, Field(description="Its tools; blank, none.")]
    rule: Annotated[list[dict[str, Any]] | None, Field(description=RULE)]
    run: Annotated[Any, Field(description="A program: a question in, a verdict out, as JSON.")]
    extends: Annotated[str | None, Field(description="What it is made from, as in `lib:planning`.")]
    settings: Annotated[dict[str, Any] | None, Field(description="Settings of what it is made from.")]
    expires: Annotated[dict[str, Any] | None, Field(description="As in `{turns: 10}` or `{time: 1h}`.")]
    budget: Annotated[dict[str, Any] | None, Field(description="What it may use, as in `{tokens: 20000}`.")]
    more: Annotated[
        dict[str, Any] | None,
        Field(description="As the plan has it: `on-fault` (deny, note), `timeout`, `copy`, `contract`, `python`."),
    ]


async def hook(
    context: Context,
    name: Annotated[str, Field(min_length=1, description="Its name.")],
    reason: Annotated[str, Field(description="What it is for.")] = "",
    **fields: Unpack[HookFields],
) -> Settlement:
    """Attaches a hook to you or to a child: a rule, a program, or an agent with a prompt and a model.

    It is asked at the stated points and may comment, allow, deny or rewrite. You cannot look into its answers, and one
    that is above you is not yours to change.
    """
    path = (*pointer.of_task(_place(context, fields.get("to") or "")), "hooks")
    node = sketched({key: value for key, value in fields.items() if value is not None})
    is_first = not pointer.has(document(context), path)
    op = Op("add", path, {name: node}) if is_first else Op("add", (*path, name), node)
    return await submit(context, [op], reason or f"attaches the hook {name}")


def sketched(fields: JsonObject) -> JsonObject:
    """One hook as the plan is to have it. Raises ToolFailed."""
    written: JsonObject = {name: fields[name] for name in AS_WRITTEN if name in fields}
    node = combined(fields.get("more", {}), written)
    own: JsonObject = {name: fields[name] for name in OF_AGENT if name in fields}
    if own and "prompt" not in own and "extends" not in fields:
        said = " and ".join(f"`{name}`" for name in own)
        raise ToolFailed("BadArguments", f"{said} without `prompt`: say what the agent behind it is to watch out for")
    return combined(node, {"agent": own} if own else {})


def combined(more: JsonObject, given: JsonObject) -> JsonObject:
    """What `more` and the fields beside it say together. Raises ToolFailed where they say one thing differently."""
    if twice := [name for name in given if name in more and more[name] != given[name]]:
        raise ToolFailed("BadArguments", f"`{twice[0]}` is given twice: in `more` and beside it")
    return more | given


def _place(context: Context, to: str) -> tuple[str, ...]:
    """The path of the task whose agent is to be watched."""
    parts = tuple(part for part in to.removeprefix("agent/").removeprefix("task/").split("/") if part not in ("", "."))
    own = context.task_path
    return parts if parts[: len(own)] == own and len(parts) >= len(own) else (*own, *parts)
