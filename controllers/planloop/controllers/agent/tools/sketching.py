"""From the arguments of the `task` tool to a task of the plan document.

What it does not know it passes on as it stands: the gate's schema says what is wrong with it, in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, Final, TypedDict

from pydantic import Field

from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.schemas import limits, pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patching import Op

OF_AGENT: Final = ("model", "tools", "deny", "effects", "script", "python", "from")
"""Fields of a task that are its agent's in the document. So are `instructions`, under the name of `prompt`."""


@frozen
class Sketch:
    """A task to be added: its id and document form, the prompts to keep in the plan, and whose ends are waited for.

    `waits_for` are tasks among it and those below it, as paths below the caller. `under` is the path, below the caller,
    of the task that gets it as its child; empty: the caller's own. As a call states it, it may be an agent's address.
    """

    id: str
    node: JsonObject
    prompts: dict[str, str] = field(default_factory=dict)
    waits_for: tuple[str, ...] = ()
    under: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its path below the caller."""
        return "/".join((*self.under, self.id))

    def moved(self, under: tuple[str, ...]) -> Sketch:
        """The same sketch below the task at `under`, with the paths of the tasks that are waited for."""
        old = "".join(f"{part}/" for part in self.under)
        new = "".join(f"{part}/" for part in under)
        return replace(self, under=under, waits_for=tuple(new + path.removeprefix(old) for path in self.waits_for))


TaskFields = TypedDict(
    "TaskFields",
    {
        "goal": Annotated[str | None, Field(description="What is to be true at the end; left out, the prompt.")],
        "prompt": Annotated[str | None, Field(description="What to do or answer at once; its answer is your result.")],
        "id": Annotated[str | None, Field(description="Its name; made from the goal when left out.")],
        "instructions": Annotated[
            str | None,
            Field(description="Its system prompt: `lib:name`, `file:path`, `mcp:server/name`, a name, or text."),
        ],
        "store": Annotated[
            str | None,
            Field(description="A name under which `instructions` is kept among the prompts of the plan."),
        ],
        "wait": Annotated[bool | None, Field(description="Whether your result is to be how it ends.")],
        "from": Annotated[str | None, Field(description="An agent below you to copy, with all that it knows.")],
        "under": Annotated[str | None, Field(description="The agent below you whose child it is; left out, you.")],
        "agent": Annotated[Any, Field(description="The name of an agent, or a map of its fields.")],
        "model": str | None,
        "tools": list[str] | None,
        "budget": dict[str, Any] | None,
        "acceptance": Annotated[list[Any] | None, Field(description="Checks that must hold, as in `{sh: npm test}`.")],
        "needs": Annotated[list[str] | None, Field(description="Ids of tasks that must be done first.")],
        "run": Annotated[Any, Field(description="A command that does it, instead of an agent.")],
        "cwd": str | None,
        "notes": str | None,
        "retries": int | None,
        "effects": dict[str, str] | None,
        "script": list[Any] | None,
        "tasks": Annotated[
            list[dict[str, Any]] | None,
            Field(description="Several children, each as one map; beside a goal or an id, the children of that task."),
        ],
    },
    total=False,
)
"""What a child task may be told. Other fields of a task go into `tasks` or `edit_plan`."""


def sketches_of(fields: JsonObject) -> list[Sketch]:
    """The tasks that a call with these fields adds. Raises ToolFailed.

    Fields beside `tasks` make one task that has `tasks` as its children; `wait` alone is about each of these.
    """
    given = {key: value for key, value in fields.items() if value not in (None, "", [], {})}
    tasks = given.get("tasks")
    if not tasks or set(given) - {"tasks", "wait"}:
        return [sketched(fields)]
    is_waited_for = bool(given.get("wait"))
    each = [{"wait": True, **raw} if is_waited_for and isinstance(raw, dict) else raw for raw in tasks]
    return unlike([sketched(raw) for raw in each])


def count_of(fields: JsonObject) -> int:
    """How many tasks a call with these fields adds, at every depth."""
    tasks = fields.get("tasks")
    below = [each for each in tasks if isinstance(each, dict)] if isinstance(tasks, list) else []
    is_one = not below or any(fields.get(key) not in (None, "", [], {}) for key in set(fields) - {"tasks", "wait"})
    return int(is_one) + sum(map(count_of, below))


def unlike(sketches: list[Sketch]) -> list[Sketch]:
    """The same, which all have ids of their own. Raises ToolFailed."""
    names = [sketch.name for sketch in sketches]
    if len(set(names)) < len(names):
        raise ToolFailed("SameId", f"two of these have the same id: {', '.join(names)}")
    return sketches


def prompts_of(sketches: Iterable[Sketch]) -> dict[str, str]:
    """All prompts to keep. Raises ToolFailed where two texts have one name."""
    found: dict[str, str] = {}
    for name, text in (entry for sketch in sketches for entry in sketch.prompts.items()):
        if found.setdefault(name, text) != text:
            raise ToolFailed("SameName", f"`store: {name}` names two texts: give each a name")
    return found


def sketched(raw: Json) -> Sketch:
    """One task as the plan is to have it. Raises ToolFailed."""
    if not isinstance(raw, dict):
        raise ToolFailed("BadArguments", "a task is a map with a goal")
    fields = {key: value for key, value in raw.items() if value is not None}
    prompt = str(fields.pop("prompt", ""))
    is_waited_for = bool(fields.pop("wait", False)) or bool(prompt)
    if prompt and "goal" in fields:
        fields["notes"] = "\n\n".join(part for part in (prompt, str(fields.get("notes", ""))) if part)
    elif prompt:
        fields["goal"] = prompt
    copied = f"{fields['from']}-copy" if fields.get("from") else ""
    name = str(fields.pop("id", "") or _slug(fields.get("goal")) or _slug(copied))
    if not name:
        beside = [key for key in fields if key not in ("tasks", "under")]
        where = f": `{beside[0]}` beside `tasks` is of a task around them" if beside and "tasks" in fields else ""
        raise ToolFailed("BadArguments", f"a task has a goal, a prompt or an id{where}")
    under = tuple(part for part in str(fields.pop("under", "")).split("/") if part not in ("", "."))
    whole = "/".join((*under, name))
    waits_for = [whole] if is_waited_for else []
    prompts = _stored(fields)
    own = {key: fields.pop(key) for key in OF_AGENT if key in fields}
    if "instructions" in fields:
        own["prompt"] = fields.pop("instructions")
    if own:
        fields["agent"] = _with(fields.get("agent"), own)
    if isinstance(children := fields.get("tasks"), list):
        inner = unlike([sketched(child) for child in children])
        if any(sketch.under for sketch in inner):
            raise ToolFailed("BadArguments", "`under` is for a child of yours, not for one among `tasks`")
        fields["tasks"] = {sketch.id: sketch.node for sketch in inner}
        prompts = prompts_of([Sketch(name, {}, prompts), *inner])
        waits_for += [f"{whole}/{path}" for sketch in inner for path in sketch.waits_for]
    return Sketch(name, fields, prompts, tuple(waits_for), under)


def additions(plan: JsonObject, path: Sequence[str], nodes: JsonObject) -> list[Op]:
    """The operations that add tasks to the task at `path` of the document `plan`."""
    own = (*pointer.of_task(path), "tasks")
    if pointer.has(plan, own):
        return [Op("add", (*own, name), node) for name, node in nodes.items()]
    return [Op("add", own, nodes)]


def _stored(fields: JsonObject) -> dict[str, str]:
    """Takes `store` out of `fields`: its text is to be one of the plan's prompts, and `instructions` is its name."""
    name = fields.pop("store", None)
    if name is None:
        return {}
    text = str(fields.get("instructions", ""))
    if not text:
        raise ToolFailed("BadArguments", "`store` keeps the text of `instructions`, and there is none")
    fields["instructions"] = name
    return {str(name): text}


def _with(agent: Json, own: JsonObject) -> JsonObject:
    """An agent with some fields of its own: a name becomes what it extends. Raises ToolFailed."""
    if agent is None:
        return own
    if isinstance(agent, str):
        return {"extends": agent, **own}
    if isinstance(agent, dict):
        if twice := [key for key in own if key in agent and agent[key] != own[key]]:
            raise ToolFailed("BadArguments", f"`{twice[0]}` is given twice: in `agent` and beside it")
        return {**agent, **own}
    raise ToolFailed("BadArguments", "`agent` is a name or a map")


def _slug(goal: Json) -> str:
    words = re.findall(r"[a-z0-9]+", str(goal or "").lower())
    return "-".join(words)[: limits.TASK_ID_CHARS_MAX].strip("-")
