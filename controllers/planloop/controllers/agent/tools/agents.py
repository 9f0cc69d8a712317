"""Declared agents as tools: `tools: [agent:reviewer]` gives a function of that name, and calling it asks that agent.

The first call adds a child task done by the agent; every later one asks the same child, which remembers. What the child
may do is what any child of the caller with that agent may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field

from planloop.controllers.agent.tools import delegating, discussing, threads
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.sketching import sketched
from planloop.controllers.agent.tools.threads import short_name
from planloop.controllers.agent.tools.tool import Context, Ending, Objects, Settlement, Tool, ToolFunction, failure
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.call import EffectClass
from planloop.schemas.encoding import JsonObject
from planloop.schemas.tools import AGENT_TOOL

LIBRARY: Final = "lib:"


class AgentTools(Mapping[str, Tool]):
    """`own` tools and one for each agent that the plan declares, as one registry."""

    def __init__(self, own: Mapping[str, Tool], view: Callable[[], Objects]) -> None:
        self._own = own
        self._view = view
        self._kept: dict[tuple[str, str], Tool] = {}

    def __getitem__(self, name: str) -> Tool:
        if name in self._own:
            return self._own[name]
        agent = name.removeprefix(AGENT_TOOL)
        declared = self._declared()
        if not name.startswith(AGENT_TOOL) or agent not in declared:
            raise KeyError(name)
        # The same object for the same words: what a model is told of its tools is made once.
        doc = str(declared[agent].get("doc") or f"Asks the agent `{agent}`. It remembers what it was asked before.")
        if len(self._kept) >= limits.SPECS_KEPT_MAX:
            self._kept.clear()
        return self._kept.setdefault((agent, doc), _tool(agent, doc))

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (f"{AGENT_TOOL}{name}" for name in self._declared())

    def __len__(self) -> int:
        return len(self._own) + len(self._declared())

    def _declared(self) -> JsonObject:
        for plan in self._view().list("plan"):
            agents = plan.spec.get("agents", {})
            return agents if isinstance(agents, dict) else {}
        return {}


def _tool(agent: str, doc: str) -> Tool:
    return Tool(f"{AGENT_TOOL}{agent}", _asking(agent), EffectClass.IDEMPOTENT, resolve=resolve, doc=doc)


def _asking(agent: str) -> ToolFunction:
    async def asked(
        context: Context, prompt: Annotated[str, Field(min_length=1, description="What to do or answer.")]
    ) -> Ending:
        return await ask(context, agent, prompt)

    return asked


async def ask(context: Context, agent: str, prompt: str) -> Ending:
    """Has the caller's child `agent` answer `prompt`; makes that child when it is not there yet."""
    view = context.world.store.view
    name = _name_for(context, agent, prompt)
    path = (*context.task_path, name)
    task = view.get(str(addresses.task(*path)))
    if task is None or _is_this_very_call(context, name, prompt):
        return await delegating.add(context, [sketched({"id": name, "prompt": prompt, "agent": agent})])
    child = view.get(str(addresses.agent(*path)))
    if child is None or child.spec["prototype"] != agent:
        raise ToolFailed("Exists", f"there is a task `{agent}` below you that is not done by the agent of that name")
    return discussing.opened(context, prompt, (child.address,), ())


def _is_this_very_call(context: Context, name: str, prompt: str) -> bool:
    task = context.world.store.view.get(str(addresses.task(*context.task_path, name)))
    return task is not None and delegating.is_new(context, name) and task.spec["goal"] == prompt


def _name_for(context: Context, agent: str, prompt: str) -> str:
    """The child to ask: `agent`. Library code answers its goal and is over: each call of it is another child."""
    view, name = context.world.store.view, agent
    for number in range(2, limits.CHILDREN_MAX):
        child = view.get(str(addresses.agent(*context.task_path, name)))
        if child is None or not str(child.spec["mind"].get("target", "")).startswith(LIBRARY):
            break
        if _is_this_very_call(context, name, prompt):
            break
        name = f"{agent}-{number}"
    return name


def resolve(context: Context) -> Ending | None:
    """What the child answered, as it is."""
    if "ends" in context.call.status:
        return delegating.resolve(context)
    talk = threads.read(context, str(context.call.status.get("thread")))
    if talk is None:
        return Settlement(failure("Gone", "the question was withdrawn"))
    answer, name = talk.answer(0), short_name(context, talk.spec.speakers[0])
    return None if answer is None else Settlement(delegating.result_of({name: answer}), threads.closed(talk, [name]))
