"""The container tools: add containers to the agent's task, from fields or a Compose file, and run commands inside."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypedDict, Unpack

from pydantic import AliasChoices, Field

from planloop.compiler.read import read_source
from planloop.containers.engine.engine import EngineFailed
from planloop.controllers.agent.tools import hooks, shell
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.plan import ALREADY_APPLIED, live_document, verdict_settlement
from planloop.controllers.agent.tools.shell import command_result, command_timeout_s
from planloop.controllers.agent.tools.tool import Settlement, ToolContext, failure, success
from planloop.controllers.agent.tools.workspace import read_file
from planloop.controllers.shared.container_exec import ContainerCommands, ContainerProgress
from planloop.reconciler.admission.container_policy import CONTAINERS
from planloop.reconciler.effects.processes import CommandSandbox, ProcessCommand, ProcessExit
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Patch, PatchAccepted
from planloop.schemas.objects.call import CallResult, CallState
from planloop.schemas.objects.container import INTERNAL, NO_NETWORK
from planloop.schemas.objects.sandbox import CONTAINER

# A Compose file becomes containers of a plan. A field that a plan cannot express is rejected by name, and so is `$name`
# in a value, which would need the owner's environment.

_TOP: Final = frozenset({"services", "version", "name", "volumes", "networks"})
_CONDITIONS: Final = {
    "service_started": "started",
    "service_healthy": "healthy",
    "service_completed_successfully": "completed",
}
_VARIABLE: Final = re.compile(r"\$(?!\$)")
_RESTARTS: Final = {"no": "no", "always": "always", "on-failure": "on-failure", "unless-stopped": "always"}
_PLAIN: Final = {"image": "image", "working_dir": "workdir", "user": "user", "read_only": "read-only"}
_LISTS: Final = {"cap_drop": "cap-drop", "cap_add": "cap-add"}
_LIMITS: Final = {"cpus": "cpu", "mem_limit": "memory", "pids_limit": "pids"}
_HEALTH: Final = frozenset({"test", "interval", "timeout", "retries", "start_period"})


def read_compose_file(content: bytes, file: str, folder: str) -> dict[str, JsonObject]:
    """Return the services of the Compose file `file` in `folder` of the plan. Raises ToolFailed: BadCompose."""
    tree = read_source(content, file=file)
    errors = [one.summary for one in tree.diagnostics if one.severity == "error"]
    if errors:
        raise _bad(f"{file}: {'; '.join(errors)}")
    whole = _map(tree.value, file)
    _only(whole, _TOP, file)
    for field in ("volumes", "networks"):
        for name, settings in _map(whole.get(field), field).items():
            if settings:
                raise _bad(f"{field}: settings of `{name}` are not supported")
    services = _map(whole.get("services"), "services")
    return {name: _container(name, _map(one, name), folder) for name, one in services.items()}


def _container(name: str, service: JsonObject, folder: str) -> JsonObject:
    if service.keys() >= {"networks", "network_mode"}:
        raise _bad(f"`{name}` has both `networks` and `network_mode`: remove one")
    out: JsonObject = {}
    for field, value in service.items():
        at = f"{name}.{field}"
        if field in _PLAIN:
            out[_PLAIN[field]] = _filled(value, at)
        elif field in _LISTS:
            out[_LISTS[field]] = _list(value, at)
        elif field in _LIMITS:
            # Compose accepts `64mb` and `64m` for the same size; plans accept `64m`.
            bound = value.rstrip("bB") if isinstance(value, str) else value
            out.setdefault("limits", {})[_LIMITS[field]] = bound
        elif field in _READERS:
            out |= _READERS[field](value, at)
        elif field == "volumes":
            out["mounts"] = [_mount(each, at, folder) for each in _list(value, at)]
        elif field != "init" or value is not True:
            raise _unsupported(at)
    return out


def _command(field: str) -> Callable[[Json, str], JsonObject]:
    def read(value: Json, at: str) -> JsonObject:
        words = shlex.split(value) if isinstance(value, str) else _list(value, at)
        return {field: [str(_filled(word, at)) for word in words]}

    return read


def _environment(value: Json, at: str) -> JsonObject:
    if isinstance(value, dict):
        pairs = value
    else:
        parts = [str(each).partition("=") for each in _list(value, at)]
        if bare := [name for name, sign, _ in parts if not sign]:
            raise _bad(f"`{at}`: `{bare[0]}` has no value; values from outside are not supported")
        pairs = {name: text for name, _, text in parts}
    if empty := [name for name, each in pairs.items() if each is None]:
        raise _bad(f"`{at}`: `{empty[0]}` has no value; values from outside are not supported")
    return {"env": {name: _filled(each, at) for name, each in pairs.items()}}


def _ports(value: Json, at: str) -> JsonObject:
    return {"ports": [_port(each, at) for each in _list(value, at)]}


def _port(value: Json, at: str) -> JsonObject:
    if isinstance(value, dict):
        _only(value, frozenset({"target", "published"}), at)
        host, inside = value.get("published", ""), value.get("target")
    else:
        host, _, inside = str(value).removeprefix("127.0.0.1:").rpartition(":")
    if not str(inside).isdigit() or not (host in (None, "") or str(host).isdigit()):
        raise _bad(f"`{at}`: `{value}` is not `container` or `host:container`, with one port each")
    return {"container": int(str(inside))} | ({"host": int(str(host))} if host else {})


def _mount(value: Json, at: str, folder: str) -> JsonObject:
    if isinstance(value, dict):
        _only(value, frozenset({"type", "source", "target", "read_only"}), at)
        source, target, is_read_only = value.get("source", ""), value.get("target"), value.get("read_only", False)
    else:
        source, target, is_read_only = _short_mount(str(value), at)
    out: JsonObject = {"container": _filled(target, at)} | ({"read-only": True} if is_read_only else {})
    if not source:
        return out | {"tmpfs": True}
    text = str(_filled(source, at))
    if not text.startswith((".", "/", "~")):
        return out | {"volume": text}
    return out | {"host": text if text[0] in "/~" else posixpath.normpath(posixpath.join(folder, text))}


def _short_mount(text: str, at: str) -> tuple[str, str, bool]:
    parts = text.split(":")
    mode = parts.pop() if len(parts) == 3 else "rw"
    if mode not in ("ro", "rw") or len(parts) > 2:
        raise _bad(f"`{at}`: `{text}` is not `source:target` or `source:target:ro`")
    return (parts[0], parts[1], mode == "ro") if len(parts) == 2 else ("", parts[0], False)


def _depends_on(value: Json, at: str) -> JsonObject:
    if not isinstance(value, dict):
        return {"needs": dict.fromkeys(map(str, _list(value, at)), "started")}
    needs: JsonObject = {}
    for name, how in value.items():
        condition = str(_map(how, at).get("condition", "service_started"))
        if condition not in _CONDITIONS:
            raise _bad(f"`{at}.{name}`: unknown condition `{condition}`; known: {', '.join(_CONDITIONS)}")
        needs[name] = _CONDITIONS[condition]
    return {"needs": needs}


def _healthcheck(value: Json, at: str) -> JsonObject:
    written = _map(value, at)
    _only(written, _HEALTH, at)
    test = written.get("test")
    words = ["CMD-SHELL", test] if isinstance(test, str) else _list(test, at)
    match words:
        case ["CMD", *rest]:
            cmd: Json = [str(_filled(word, at)) for word in rest]
        case ["CMD-SHELL", line]:
            cmd = str(_filled(line, at))
        case _:
            raise _bad(f"`{at}.test` must be text, or a list that starts with CMD or CMD-SHELL")
    out: JsonObject = {"cmd": cmd} | ({"retries": written["retries"]} if "retries" in written else {})
    for field in ("interval", "timeout", "start_period"):
        if field in written:
            seconds = quantities.parse_duration(str(written[field]))
            if seconds is None:
                raise _bad(f"`{at}.{field}`: `{written[field]}` is not a duration")
            out[field.replace("_", "-")] = seconds
    return {"health": out}


def _networks(value: Json, at: str) -> JsonObject:
    names = [name for name in (value if isinstance(value, dict) else _list(value, at)) if name != "default"]
    if NO_NETWORK in names:
        raise _bad(f"`{at}`: `{NO_NETWORK}` is not a network name; for no network write `network_mode: none`")
    if isinstance(value, dict) and (named := [name for name, one in value.items() if one]):
        raise _bad(f"`{at}`: settings of `{named[0]}` are not supported")
    return {"networks": names} if names else {}


def _network_mode(value: Json, at: str) -> JsonObject:
    if value != NO_NETWORK:
        raise _unsupported(at)
    return {"networks": [NO_NETWORK]}


def _restart(value: Json, at: str) -> JsonObject:
    word = "no" if value is False else str(value)  # YAML reads `no` as false.
    if word not in _RESTARTS:
        raise _bad(f"`{at}`: unknown policy `{word}`; known: {', '.join(_RESTARTS)}")
    return {"restart": _RESTARTS[word]}


_READERS: Final[Mapping[str, Callable[[Json, str], JsonObject]]] = {
    "command": _command("cmd"),
    "entrypoint": _command("entrypoint"),
    "environment": _environment,
    "ports": _ports,
    "depends_on": _depends_on,
    "healthcheck": _healthcheck,
    "networks": _networks,
    "network_mode": _network_mode,
    "restart": _restart,
}


def _filled(value: Json, at: str) -> Json:
    """Return `value` with `$$` unescaped. Raises ToolFailed for a variable, whose value is not available."""
    if not isinstance(value, str):
        return value
    if _VARIABLE.search(value.replace("$$", "")):
        raise _bad(f"`{at}`: variables such as in `{value}` are not supported; write the value, or `$$` for `$`")
    return value.replace("$$", "$")


def _map(value: Json, at: str) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad(f"`{at}` is not a map")
    return value


def _list(value: Json, at: str) -> list[Json]:
    if not isinstance(value, list):
        raise _bad(f"`{at}` is not a list")
    return value


def _only(value: Mapping[str, Json], known: frozenset[str], at: str) -> None:
    if unknown := sorted(value.keys() - known):
        raise _unsupported(f"{at}.{unknown[0]}")


def _unsupported(at: str) -> ToolFailed:
    return _bad(f"`{at}` is not supported: remove it")


def _bad(message: str) -> ToolFailed:
    return ToolFailed("BadCompose", message)


# A container belongs to the task and is removed with it. Adding and removing are safe to repeat after a crash. A
# command in a container has the effect class `once`, like a shell command.

NameText = Annotated[str, Field(min_length=1)]
WaitSeconds = Annotated[float | None, Field(ge=0, description="Default 120; 0: do not wait.")]
_BOUNDS: Final = {"memory": "memory", "processes": "pids"}


class ContainerFields(TypedDict, total=False):
    """Fields of a container; the gate's schema reports errors."""

    image: Annotated[str | None, Field(description="Name or digest.")]
    cmd: Annotated[str | list[str] | None, Field(description="Line for sh, or list; default: the image's.")]
    env: dict[str, Any] | None
    workdir: str | None
    mounts: Annotated[
        dict[str, str] | list[dict[str, Any]] | None,
        Field(description="Folders of the plan: `{src: /work}`; or a list with `volume`, `tmpfs`, `read-only`."),
    ]
    ports: Annotated[
        list[int | dict[str, Any]] | None, Field(description="Container ports; each gets a free host port.")
    ]
    networks: Annotated[list[str] | None, Field(description="Default: the plan's; `internal` has no internet.")]
    needs: Annotated[
        list[str] | dict[str, str] | None,
        Field(description="Containers that must be `started`, `healthy` or `completed` first."),
    ]
    health: Annotated[dict[str, Any] | None, Field(description="Health check: `cmd`, `http` or `tcp`.")]
    more: Annotated[dict[str, Any] | None, Field(description="Other fields of a container in the plan.")]
    wait_s: WaitSeconds


async def container(context: ToolContext, name: NameText, **fields: Unpack[ContainerFields]) -> Settlement:
    """Create a container for your task, or change one that you created, and wait until it is up.

    It is removed with your task.
    """
    given: JsonObject = {field: value for field, value in fields.items() if value not in (None, "")}
    more, wait_s = given.pop("more", {}), given.pop("wait_s", None)
    if "ports" in given:
        given["ports"] = [{"container": one} if isinstance(one, int) else one for one in given["ports"]]
    return await _raised(context, {name: hooks.combine_fields(more, given)}, wait_s)


async def compose_up(
    context: ToolContext,
    containers: Annotated[dict[str, dict[str, Any]] | None, Field(description="By name, as in the plan.")] = None,
    file: Annotated[str, Field(description="Or a Compose file of the workspace.")] = "",
    wait_s: WaitSeconds = None,
) -> Settlement:
    """Create several containers for your task and wait until they are up. They are removed with your task."""
    if (containers is None) == (not file):
        raise ToolFailed("BadArguments", "give either `containers` or `file`")
    if containers is None:
        with context.workspace.spot(file, "read", "compose_up") as spot:
            folder, _, name = spot.path.rpartition("/")
            containers = read_compose_file(read_file(spot), name, folder)
    if not containers:
        raise ToolFailed("BadArguments", "the map or file has no containers")
    return await _raised(context, containers, wait_s)


async def container_exec(
    context: ToolContext,
    name: NameText,
    command: Annotated[str, Field(min_length=1)],
    timeout_s: Annotated[
        float | None,
        Field(gt=0, validation_alias=AliasChoices("timeout", "timeout_s"), description="Seconds, at most 600."),
    ] = None,
    workdir: str = "",
) -> Settlement:
    """Run an sh command in a container. Returns the exit code, and stdout and stderr mixed."""
    bound_s = command_timeout_s(context, timeout_s)
    found = await _containers(context).settled(name, min(bound_s, limits.CONTAINER_WAIT_S)) or _found(context, name)
    if not found.is_up:
        return Settlement(failure("NotUp", _describe(found)))
    wanted = ProcessCommand(
        cwd=str(context.workspace.root),
        shell=command,
        timeout_s=bound_s,
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=CommandSandbox(CONTAINER, name, inside=workdir),
    )
    await shell.note_unboxed_command(context)  # The workspace may be mounted in the container.
    return await exec_settlement(context, await context.services.programs.processes.run(context.spec.op, wanted))


async def container_logs(
    context: ToolContext,
    name: NameText,
    lines: Annotated[int, Field(gt=0, le=limits.CONTAINER_LINES_SHOWN)] = 50,
) -> Settlement:
    """Show the state of a container and the last lines of its output."""
    found = _found(context, name)
    return Settlement(await _report(context, [found], lines))


async def container_stop(context: ToolContext, name: NameText) -> Settlement:
    """Stop a container that you created and remove it from the plan. Returns its exit code and last output."""
    found = _containers(context).find(name)
    if found is None:
        return Settlement(success(f"there is no container `{name}`"))
    output = await _written(context, found)
    others = len(live_document(context).get(CONTAINERS, {})) > 1
    patched = await _submit(
        context, [PatchOp("remove", (CONTAINERS, name) if others else (CONTAINERS,))], f"stops {name}"
    )
    if patched.result.state is not CallState.SUCCEEDED:
        return patched
    ended = await _containers(context).gone(name, limits.CONTAINER_WAIT_S)
    code = "" if ended is None or ended.exit_code is None else f" with exit code {ended.exit_code}"
    words = f"`{name}` is stopped{code}" if ended is not None else f"`{name}` is being stopped"
    last = truncate_output(b"\n".join(output.splitlines()[-(limits.CONTAINER_LINES_SHOWN // 4) :]))
    blob = context.services.store.put_blob(output[-limits.OUTPUT_KEPT_BYTES_MAX :]) if output else None
    return Settlement(CallResult(CallState.SUCCEEDED, "\n".join(filter(None, (words, last))), blob=blob))


async def _raised(context: ToolContext, wanted: Mapping[str, JsonObject], wait_s: float | None) -> Settlement:
    """Add the containers to the plan and wait until each is up or cannot come up."""
    own = {name: _owned(context, written) for name, written in wanted.items()}
    there = live_document(context).get(CONTAINERS)
    ops = (
        [PatchOp("add", (CONTAINERS,), own)]
        if there is None
        else [PatchOp("replace" if name in there else "add", (CONTAINERS, name), each) for name, each in own.items()]
    )
    patched = await _submit(context, ops, f"starts {', '.join(own)}")
    if patched.result.state is not CallState.SUCCEEDED or "held" in (patched.result.value or {}):
        return patched
    within_s = limits.CONTAINER_WAIT_S if wait_s is None else wait_s
    found = [await _containers(context).settled(name, within_s) for name in own]
    return Settlement(await _report(context, [one for one in found if one is not None], 20))


def _owned(context: ToolContext, written: JsonObject) -> JsonObject:
    """Return a container for the plan: it belongs to the agent's task, and its limits are at most the agent's."""
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


async def _submit(context: ToolContext, ops: list[PatchOp], reason: str) -> Settlement:
    """Submit a patch that is based on the newest plan, because the decision does not depend on changes by others."""
    plan = context.services.store.view.get(context.services.plan)
    if plan is not None and all(_is_applied(plan.spec, op) for op in ops):
        return Settlement(success(ALREADY_APPLIED))
    patch = Patch(context.author, tuple(ops), context.services.store.view.rev, reason)
    verdict = await context.services.gate.submit(patch)
    return Settlement(success("accepted")) if isinstance(verdict, PatchAccepted) else verdict_settlement(verdict)


def _is_applied(plan: JsonObject, op: PatchOp) -> bool:
    value: Json = plan
    for token in op.path:
        value = value.get(token) if isinstance(value, dict) else None
    return value is None if op.op == "remove" else value == op.value


def _containers(context: ToolContext) -> ContainerCommands:
    found = context.services.connections.containers
    if found is None:
        raise ToolFailed("NoContainers", "this plan has no containers")
    return found


def _found(context: ToolContext, name: str) -> ContainerProgress:
    """Return the container if it belongs to the agent's task, an ancestor or a descendant. Raises ToolFailed."""
    found = _containers(context).find(name)
    if found is None:
        names = ", ".join(f"`{one}`" for one in live_document(context).get(CONTAINERS, {})) or "none"
        raise ToolFailed("NotFound", f"there is no container `{name}`; containers of the plan: {names}")
    return found


async def _report(context: ToolContext, found: list[ContainerProgress], lines: int) -> CallResult:
    """Return the state and last lines of each container. The result is a failure if one of them cannot come up."""
    parts, whole = [], b""
    for one in found:
        output = await _written(context, one)
        last = b"\n".join(output.splitlines()[-lines:])
        parts.append("\n".join(filter(None, (_describe(one), truncate_output(last)))))
        whole += output[-limits.OUTPUT_KEPT_BYTES_MAX :]
    blob = context.services.store.put_blob(whole) if whole else None
    code = found[0].exit_code if len(found) == 1 else None
    text = "\n\n".join(parts)
    if all(one.is_fine for one in found):
        return CallResult(CallState.SUCCEEDED, text, "", code, blob)
    return CallResult(CallState.FAILED, text, "NotUp", code, blob)


async def _written(context: ToolContext, one: ContainerProgress) -> bytes:
    """Return the output of a container, or the engine's error."""
    try:
        return await _containers(context).output(one)
    except EngineFailed as failed:
        return failed.words.encode()


def _describe(one: ContainerProgress) -> str:
    """State, exit code, addresses and hints as one line."""
    parts = [one.words]
    if one.exit_code is not None:
        parts.append(f"exit code {one.exit_code}")
    if one.addresses and one.is_up:
        parts.append(f"at {', '.join(one.addresses)}")
    parts += [f"port {inside} is 127.0.0.1:{host}" for inside, host in one.ports]
    if not one.is_fine:
        parts += [hint for hint in one.ready.unblocks if not hint.startswith("plan ")]  # Agents cannot run `plan`.
    return "; ".join(parts)


async def exec_settlement(context: ToolContext, found: ProcessExit) -> Settlement:
    """Return the settlement of a command that ended in a container."""
    late = "the command timed out and was stopped with its child processes"
    lost = "the command was started, but its outcome is unknown"
    settled = Settlement(command_result(context, found, late=late, lost=lost))
    return await shell.settle_command(context, settled)
