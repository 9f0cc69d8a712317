"""The container tools: patches of the plan that make containers for the agent's task, and commands inside them.

What is made belongs to the task and goes with it. Making and removing is safe to repeat after a crash, because the
plan says so already; a command inside is of class `once`, like one of the shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict, Unpack

from pydantic import AliasChoices, Field

from planloop.containers.engine import EngineFailed
from planloop.controllers.agent.tools import attaching, composing, trespassing
from planloop.controllers.agent.tools.command_results import result_of
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.patching import document, settlement_of
from planloop.controllers.agent.tools.shell import time_bound_s
from planloop.controllers.agent.tools.tool import Context, Settlement, failure, ok
from planloop.controllers.agent.tools.workspace import read_file
from planloop.controllers.inside import Containers, Standing
from planloop.reconciler.admitting.containing import CONTAINERS
from planloop.reconciler.effects.clamping import clamped
from planloop.reconciler.effects.processes import Command, Exit, Sandbox
from planloop.schemas import limits
from planloop.schemas.call import CallResult, CallState
from planloop.schemas.container import INTERNAL
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.patch import Accepted, Patch
from planloop.schemas.patching import Op
from planloop.schemas.sandbox import CONTAINER

NameText = Annotated[str, Field(min_length=1, description="The container's name.")]
WaitSeconds = Annotated[
    float | None, Field(ge=0, description="Seconds to wait until it is up; 120 when left out, 0: do not wait.")
]
_BOUNDS: Final = {"memory": "memory", "processes": "pids"}


class ContainerFields(TypedDict, total=False):
    """What a container may be told; the gate's schema says what is wrong with it, in words."""

    image: Annotated[str | None, Field(description="Image name or digest.")]
    cmd: Annotated[str | list[str] | None, Field(description="A line for sh, or a list; blank: the image's own.")]
    env: Annotated[dict[str, Any] | None, Field(description="Variables.")]
    workdir: Annotated[str | None, Field(description="Working directory inside.")]
    mounts: Annotated[
        dict[str, str] | list[dict[str, Any]] | None,
        Field(description="Folders, from the plan's: `{src: /work}`; or a list with `volume`, `tmpfs`, `read-only`."),
    ]
    ports: Annotated[
        list[int | dict[str, Any]] | None, Field(description="Ports inside; each gets a free one of this machine.")
    ]
    networks: Annotated[list[str] | None, Field(description="Left out, the plan's; `internal` has no way out.")]
    needs: Annotated[
        list[str] | dict[str, str] | None, Field(description="Containers that come first: started, healthy, completed.")
    ]
    health: Annotated[dict[str, Any] | None, Field(description="How to tell that it is well: `cmd`, `http` or `tcp`.")]
    more: Annotated[dict[str, Any] | None, Field(description="Other fields of a container in the plan.")]
    wait_s: WaitSeconds


async def container(context: Context, name: NameText, **fields: Unpack[ContainerFields]) -> Settlement:
    """Makes a container for your task, or changes one you made, and waits until it is up. It goes with your task."""
    given: JsonObject = {field: value for field, value in fields.items() if value not in (None, "")}
    more, wait_s = given.pop("more", {}), given.pop("wait_s", None)
    if "ports" in given:
        given["ports"] = [{"container": one} if isinstance(one, int) else one for one in given["ports"]]
    return await _raised(context, {name: attaching.combined(more, given)}, wait_s)


async def compose_up(
    context: Context,
    containers: Annotated[
        dict[str, dict[str, Any]] | None, Field(description="Containers by name, as the plan has them.")
    ] = None,
    file: Annotated[str, Field(description="Or a Compose file of your workspace.")] = "",
    wait_s: WaitSeconds = None,
) -> Settlement:
    """Makes several containers for your task at once and waits until they are up. They go with your task."""
    if (containers is None) == (not file):
        raise ToolFailed("BadArguments", "give one of `containers` and `file`")
    if containers is None:
        with context.workspace.spot(file, "read", "compose_up") as spot:
            folder, _, name = spot.path.rpartition("/")
            containers = composing.containers_of(read_file(spot), name, folder)
    if not containers:
        raise ToolFailed("BadArguments", "there are no containers in it")
    return await _raised(context, containers, wait_s)


async def container_exec(
    context: Context,
    name: NameText,
    command: Annotated[str, Field(min_length=1, description="A line for sh, run inside.")],
    timeout_s: Annotated[
        float | None,
        Field(gt=0, validation_alias=AliasChoices("timeout", "timeout_s"), description="Seconds; at most ten minutes."),
    ] = None,
    workdir: Annotated[str, Field(description="Working directory inside; blank: the container's.")] = "",
) -> Settlement:
    """Runs a command inside a container; gives its exit code and its output, stdout and stderr mixed."""
    bound_s = time_bound_s(context, timeout_s)
    found = await _containers(context).settled(name, min(bound_s, limits.CONTAINER_WAIT_S)) or _found(context, name)
    if not found.is_up:
        return Settlement(failure("NotUp", _told(found)))
    wanted = Command(
        cwd=str(context.workspace.root),
        shell=command,
        timeout_s=bound_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=Sandbox(CONTAINER, name, inside=workdir),
    )
    await trespassing.noted(context)  # The workspace may be mounted in there.
    return await ended(context, await context.world.processes.run(context.spec.op, wanted))


async def container_logs(
    context: Context,
    name: NameText,
    lines: Annotated[int, Field(gt=0, le=limits.CONTAINER_LINES_SHOWN, description="How many of the last.")] = 50,
) -> Settlement:
    """Shows how a container is, and the last lines that it wrote."""
    found = _found(context, name)
    return Settlement(await _report(context, [found], lines))


async def container_stop(context: Context, name: NameText) -> Settlement:
    """Stops a container that you made and takes it out of the plan; gives how it ended and what it wrote last."""
    found = _containers(context).find(name)
    if found is None:
        return Settlement(ok(f"there is no container `{name}`"))
    output = await _written(context, found)
    others = len(document(context).get(CONTAINERS, {})) > 1
    patched = await _submit(context, [Op("remove", (CONTAINERS, name) if others else (CONTAINERS,))], f"stops {name}")
    if patched.result.state is not CallState.SUCCEEDED:
        return patched
    ended = await _containers(context).gone(name, limits.CONTAINER_WAIT_S)
    code = "" if ended is None or ended.exit_code is None else f" with exit code {ended.exit_code}"
    words = f"`{name}` is stopped{code}" if ended is not None else f"`{name}` is being stopped"
    last = clamped(b"\n".join(output.splitlines()[-(limits.CONTAINER_LINES_SHOWN // 4) :]))
    blob = context.world.store.put_blob(output[-limits.OUTPUT_KEPT_BYTES_MAX :]) if output else None
    return Settlement(CallResult(CallState.SUCCEEDED, "\n".join(filter(None, (words, last))), blob=blob))


async def _raised(context: Context, wanted: Mapping[str, JsonObject], wait_s: float | None) -> Settlement:
    """Puts the containers into the plan and waits until all are up, or will not be."""
    own = {name: _owned(context, written) for name, written in wanted.items()}
    there = document(context).get(CONTAINERS)
    ops = (
        [Op("add", (CONTAINERS,), own)]
        if there is None
        else [Op("replace" if name in there else "add", (CONTAINERS, name), each) for name, each in own.items()]
    )
    patched = await _submit(context, ops, f"starts {', '.join(own)}")
    if patched.result.state is not CallState.SUCCEEDED or "held" in (patched.result.value or {}):
        return patched
    within_s = limits.CONTAINER_WAIT_S if wait_s is None else wait_s
    found = [await _containers(context).settled(name, within_s) for name in own]
    return Settlement(await _report(context, [one for one in found if one is not None], 20))


def _owned(context: Context, written: JsonObject) -> JsonObject:
    """A container as the plan is to have it: its task is the agent's, and its bounds are no wider."""
    out: JsonObject = {key: value for key, value in written.items() if value is not None}
    if context.task_path:
        out.setdefault("task", "/".join(context.task_path))
    if not context.seen.spec.rights.network:
        out.setdefault("networks", [INTERNAL])
    sandbox = context.seen.spec.sandbox
    own: JsonObject = {"processes": limits.SANDBOX_PROCESSES} | (sandbox if isinstance(sandbox, dict) else {})
    bounds = {inside: own[ours] for ours, inside in _BOUNDS.items() if ours in own}
    out["limits"] = bounds | (out.get("limits") or {})
    return out


async def _submit(context: Context, ops: list[Op], reason: str) -> Settlement:
    """Like `submit`, but on the newest plan: what others made meanwhile is nothing that this was decided by."""
    plan = context.world.store.view.get(context.world.plan)
    if plan is not None and all(_holds(plan.spec, op) for op in ops):
        return Settlement(ok("the plan is so already"))
    patch = Patch(context.author, tuple(ops), context.world.store.view.rev, reason)
    verdict = await context.world.gate.submit(patch)
    return Settlement(ok("accepted")) if isinstance(verdict, Accepted) else settlement_of(verdict)


def _holds(plan: JsonObject, op: Op) -> bool:
    value: Json = plan
    for token in op.path:
        value = value.get(token) if isinstance(value, dict) else None
    return value is None if op.op == "remove" else value == op.value


def _containers(context: Context) -> Containers:
    found = context.world.containers
    if found is None:
        raise ToolFailed("NoContainers", "nothing runs in containers here")
    return found


def _found(context: Context, name: str) -> Standing:
    """The container, if it is of the agent's task, of one below or above it. Raises ToolFailed."""
    found = _containers(context).find(name)
    if found is None:
        names = ", ".join(f"`{one}`" for one in document(context).get(CONTAINERS, {})) or "none"
        raise ToolFailed("NotFound", f"there is no container `{name}`; the plan has {names}")
    return found


async def _report(context: Context, found: list[Standing], lines: int) -> CallResult:
    """How containers are, each with its last lines. It has failed when one of them is not up and will not be."""
    parts, whole = [], b""
    for one in found:
        output = await _written(context, one)
        last = b"\n".join(output.splitlines()[-lines:])
        parts.append("\n".join(filter(None, (_told(one), clamped(last)))))
        whole += output[-limits.OUTPUT_KEPT_BYTES_MAX :]
    blob = context.world.store.put_blob(whole) if whole else None
    code = found[0].exit_code if len(found) == 1 else None
    text = "\n\n".join(parts)
    if all(one.is_fine for one in found):
        return CallResult(CallState.SUCCEEDED, text, "", code, blob)
    return CallResult(CallState.FAILED, text, "NotUp", code, blob)


async def _written(context: Context, one: Standing) -> bytes:
    """What a container has written, or why the engine does not say."""
    try:
        return await _containers(context).output(one)
    except EngineFailed as failed:
        return failed.words.encode()


def _told(one: Standing) -> str:
    """State, exit code, where it is reached, and what would help."""
    parts = [one.words]
    if one.exit_code is not None:
        parts.append(f"exit code {one.exit_code}")
    if one.addresses and one.is_up:
        parts.append(f"at {', '.join(one.addresses)}")
    parts += [f"port {inside} is 127.0.0.1:{host}" for inside, host in one.ports]
    if not one.is_fine:
        parts += [cure for cure in one.unblocks if not cure.startswith("plan ")]  # Commands are for people.
    return "; ".join(parts)


async def ended(context: Context, found: Exit) -> Settlement:
    """What the caller reads of a command that ended inside."""
    late = "it took too long and was stopped, with all it started"
    settled = Settlement(result_of(context, found, late=late, lost="nobody saw how it ended"))
    return await trespassing.judged(context, settled)
