"""The agent that a conversation addresses, found by name, by session or by container.

Without a name, a conversation is with the session's primary agent, and follows it when it changes.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.schemas import address as addresses
from planloop.schemas.frozen import mutable
from planloop.schemas.objects.hook import FIRST_RUN, has_hook_ended, is_hook_agent
from planloop.schemas.objects.plan import primary_agent
from planloop.schemas.resource import Resource

HOOK_PREFIX: Final = "hook/"
HOOKS_HINT: Final = "/hooks lists the hooks of this agent, `plan get hooks` all hooks"


@mutable
class ChatTarget:
    """`agent` is the address of the agent that is talked with; a command may turn to another.

    `is_following`: it is the session's primary agent, whichever that is. `container` is the address of the container
    that it is talked with in, and the conversation ends with that; empty: with none.
    """

    access: PlanClient
    agent: str
    is_following: bool = False
    container: str = ""

    @property
    def plan(self) -> str:
        return self.access.place.name

    @property
    def prompt(self) -> str:
        """Return the prompt of the input line."""
        return f"{self.plan} {agent_name(self.agent)}> "

    def moved(self) -> str:
        """Turns to the primary agent when that is another by now; its address, empty when nothing has changed."""
        if not self.is_following:
            return ""
        now = session_agent(self.access)
        if now in ("", self.agent):
            return ""
        self.agent = now
        return now


def session_agent(access: PlanClient) -> str:
    """Return the session's primary agent; if that was a hook that has ended, the agent that it watched.

    Empty if the session was never moved, or if that agent no longer exists.
    """
    primary = primary_agent(access.object(f"plan/{access.place.name}").status)
    agents = {one.address: one for one in access.objects("agent")} if primary else {}
    agent = agents.get(primary)
    if agent is None or agent.deleting:
        return ""
    watched = agents.get(str(agent.spec.get("watches", "")))
    if watched is None:
        return primary
    hook = next((one for one in access.objects("hook") if one.address == agent.owner), None)
    run = int(watched.status.get("incarnation", FIRST_RUN))
    return watched.address if hook is None or has_hook_ended(hook.spec, hook.status, run) else primary


def agent_name(agent: str) -> str:
    """Return the short name of `agent/frontend/ui`; the root's agent has the name of the plan."""
    path = agent.partition("/")[2]
    return "" if path == addresses.ROOT else path


def choose_agent(agents: Sequence[Resource], wanted: str | None, primary: str = "") -> str:
    """Return the named agent, by path or by a unique id; without a name, the `primary` one (`current`).

    Otherwise, if the session was never moved, the agent nearest to the root.

    Raises CommandError if there is no agent, or if several are equally near.
    """
    paths = [one.address for one in agents if not one.deleting]
    if not paths:
        raise CommandError(
            ExitCode.NOT_FOUND, "this plan has no agent", "give a task an agent; plan send requires one too"
        )
    if wanted is not None:
        return _named(paths, wanted.removeprefix("agent/"))
    if primary:
        return primary
    paths = [path for path in paths if not is_hook_agent(path)]
    depth = {path: len(addresses.parse_address(path).path) for path in paths}
    nearest = [path for path in paths if depth[path] == min(depth.values())]
    if len(nearest) > 1:
        hint = " · ".join(f"plan chat {agent_name(path)}" for path in nearest[:5])
        raise CommandError(
            ExitCode.USAGE, f"the root task has no agent, and {len(nearest)} agents are equally near to it", hint
        )
    return nearest[0]


def agent_or_hook_agent(agents: Sequence[Resource], hooks: Sequence[Resource], wanted: str, watched: str = "") -> str:
    """The agent meant by `wanted`: its own name (`chosen`), or that of a hook which an agent answers for.

    A hook is named as `/hooks` lists it or by its address; of several with one name, that of the agent at `watched`.
    Raises CommandError for an unknown agent, and for a hook that is a rule or a program.
    """
    own = f"{watched}/{wanted}"
    if wanted.startswith("~") and any(one.address == own for one in agents):
        return own
    if not wanted.startswith(HOOK_PREFIX):
        try:
            return choose_agent(agents, wanted)
        except CommandError:
            if not any(one.spec["name"] == wanted for one in hooks):
                raise
    found = [one for one in hooks if one.address == wanted or one.spec["name"] == wanted]
    near = [one for one in found if one.spec["watches"] == watched] or found
    behind = dict.fromkeys(
        str(one.spec["mind"].get("address", "")) for one in near if one.spec["mind"]["kind"] == "agent"
    )
    if len(behind) == 1:
        return next(iter(behind))
    if len(behind) > 1:
        hint = f"choose one: {', '.join(one.address for one in near)}"
        raise CommandError(ExitCode.USAGE, f"{len(behind)} hooks have the name `{wanted}`", hint)
    if near:
        kind = near[0].spec["mind"]["kind"]
        raise CommandError(
            ExitCode.USAGE, f"{near[0].address} is a {kind}, not an agent: you cannot chat with it", HOOKS_HINT
        )
    names = difflib.get_close_matches(wanted, [one.address for one in hooks], n=3, cutoff=0.4)
    raise CommandError(
        ExitCode.NOT_FOUND, f"unknown agent {wanted}", f"agents: {', '.join(names)}" if names else HOOKS_HINT
    )


def agent_for_container(container: Resource, tasks: Sequence[Resource], agents: Sequence[Resource]) -> str:
    """The agent of the task that `container` is for, else of one that waits for it. Raises CommandError when there is
    none.
    """
    own = f"task/{container.spec['task']}"
    near = [one for one in tasks if one.address == own] + [one for one in tasks if _waits(one, container)]
    known = {one.address for one in agents if not one.deleting}
    found = (agent for one in near if (agent := one.address.replace("task/", "agent/", 1)) in known)
    agent = next(found, "")
    if not agent:
        name = container.address.partition("/")[2]
        hint = f"add `containers: [{name}]` to a task with an agent, or set `task` of the container"
        raise CommandError(ExitCode.NOT_FOUND, f"no agent uses {container.address}", hint)
    return agent


def _waits(task: Resource, container: Resource) -> bool:
    return container.address in task.spec.get("containers", ())


def _named(paths: Sequence[str], wanted: str) -> str:
    exact = f"agent/{wanted}"
    if exact in paths:
        return exact
    ends = [path for path in paths if path.endswith(f"/{wanted}")]
    if len(ends) == 1:
        return ends[0]
    near = ends or difflib.get_close_matches(exact, paths, n=3, cutoff=0.4) or paths[:5]
    names = ", ".join(agent_name(path) or "." for path in near)
    raise CommandError(ExitCode.NOT_FOUND, f"no single agent has the name `{wanted}`", f"agents: {names}")
