"""Agents of a plan that an MCP client may play. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource


class IdentityObjects(Protocol):
    """The objects of a plan as of now."""

    @property
    def rev(self) -> int: ...

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


@frozen
class ExternalRole:
    """A task that the identity may take, with its agent."""

    agent: Resource
    task: Resource

    @property
    def path(self) -> str:
        return self.task.address.partition("/")[2]

    @property
    def holder(self) -> str:
        """The client that has it; empty when it is free."""
        return str((self.agent.status.get("seat") or {}).get("client", ""))

    @property
    def is_free(self) -> bool:
        """Whether it is there to be taken, as far as this moment shows."""
        is_open = self.task.state not in ENDED and self.task.status.get("go") is not None
        return is_open and not self.holder and self.agent.status.get("incarnation") == self.task.status.get("go")


def external_roles(objects: IdentityObjects, name: str) -> list[ExternalRole]:
    """The tasks of the identity `name`: an agent that the plan declares, or the path or address of a single one."""
    found = [(agent, objects.get(str(agent.spec["task"]))) for agent in _called(objects, name)]
    return [ExternalRole(agent, task) for agent, task in found if task is not None]


def identity_names(objects: IdentityObjects) -> list[str]:
    """The identities that the plan has, each once."""
    return list(dict.fromkeys(agent.spec["prototype"] or agent.address for agent in _guests(objects)))


def choose_identities(objects: IdentityObjects, wanted: Sequence[str]) -> list[str]:
    """The identities to serve: those wanted, or all that there are. Raises CommandError."""
    known = identity_names(objects)
    if not known:
        hint = "agents: {helper: {outside: true}} and `agent: helper` on a task; then plan apply"
        raise CommandError(ExitCode.NOT_FOUND, "the plan leaves no task to an agent from outside", hint)
    for name in wanted:
        if not external_roles(objects, name):
            raise CommandError(
                ExitCode.NOT_FOUND, f"no agent from outside is called `{name}`", f"the plan has {', '.join(known)}"
            )
    return list(dict.fromkeys(wanted)) or known


def require_single_identity(objects: IdentityObjects, wanted: Sequence[str]) -> str:
    """The identity of a client that comes alone. Raises CommandError when there are several to choose from."""
    found = choose_identities(objects, wanted)
    if len(found) > 1:
        raise CommandError(
            ExitCode.USAGE, "the plan has several agents from outside", f"--as {' or --as '.join(found)}"
        )
    return found[0]


def _guests(objects: IdentityObjects) -> list[Resource]:
    agents = (each for each in objects.list("agent") if not each.deleting and not each.spec.get("watches"))
    return [agent for agent in agents if agent.spec["mind"]["kind"] == "guest"]


def _called(objects: IdentityObjects, name: str) -> list[Resource]:
    """Those that `name` stands for. A task that has the name of an agent gives that agent's client no other."""
    if any(agent.spec["prototype"] == name for agent in objects.list("agent")):
        return [agent for agent in _guests(objects) if agent.spec["prototype"] == name]
    return [agent for agent in _guests(objects) if name in (agent.address, agent.address.partition("/")[2])]
