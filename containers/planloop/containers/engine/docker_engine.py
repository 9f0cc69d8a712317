"""Implement the engine port with the Docker Engine API, for Docker 20.10 and later and Podman's Docker socket.

Threads and deadlines are in `docker_client`, the API's JSON in `docker_json`, its errors in `docker_errors`, and
commands in containers in `docker_exec`.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from planloop.containers.engine import docker_errors, docker_exec, docker_json
from planloop.containers.engine.docker_client import NO_DEADLINE, DockerClient, engine_task_group, poll_until
from planloop.containers.engine.docker_frames import FrameDecoder
from planloop.containers.engine.engine import (
    LISTENING,
    ContainerCreation,
    ContainerLimits,
    EngineErrorReason,
    EngineEvent,
    EngineFacts,
    EngineFailed,
    ExecCommand,
    ExecEnd,
    FoundContainer,
    ImageBuild,
    ImageFacts,
)
from planloop.schemas import limits
from planloop.schemas.frozen import remade

LINES_KEPT: Final = 12  # Of the output of a failed build: the step, the command, and its last lines.
MEGABYTE: Final = 1_000_000
STATE: Final = ".plan"


async def pull_image(client: DockerClient, name: str, on_progress: Callable[[str], None]) -> None:
    """Implements `ContainerEngine.pull` with the credentials of `docker login`."""

    def ask(api: Any) -> Any:
        from docker.auth import get_config_header, resolve_repository_name
        from docker.utils import parse_repository_tag

        repository, tag = parse_repository_tag(name)
        header = get_config_header(api, resolve_repository_name(repository)[0])
        return api._post(
            api._url("/images/create"),
            params={"fromImage": repository, "tag": tag or "latest"},
            headers={"X-Registry-Auth": header} if header else {},
            stream=True,
            timeout=NO_DEADLINE,
        )

    progress, told = PullProgress(), ""
    with client.deadline(limits.ENGINE_PULL_S):
        async with client.stream(ask, timeout_s=limits.ENGINE_PULL_S) as stream:
            async for value in _each(stream.values()):
                progress.note(value)
                if (words := progress.words()) != told:
                    told = words
                    on_progress(words)


async def load_image(client: DockerClient, archive: Path) -> str:
    """Implements `ContainerEngine.load`; returns the name or id of the image."""

    def ask(api: Any) -> Any:
        with archive.open("rb") as source:
            return api._post(
                api._url("/images/load"), data=source, params={"quiet": 1}, stream=True, timeout=NO_DEADLINE
            )

    said = ""
    with client.deadline(limits.ENGINE_BUILD_S):
        async with client.stream(ask, timeout_s=limits.ENGINE_BUILD_S) as stream:
            async for value in _each(stream.values()):
                said += value.get("stream") or ""
    # `Loaded image: name:tag` or `Loaded image ID: sha256:…`, and one line for each further name.
    name = said.strip().rpartition("\n")[2].partition(": ")[2]
    if not name:
        raise EngineFailed(
            EngineErrorReason.REFUSED,
            f"{archive.name} contains no image",
            "create it with `docker save` or `plan image make`",
        )
    return name


async def build_image(client: DockerClient, build: ImageBuild, on_line: Callable[[str], None]) -> str:
    """Implements `ContainerEngine.build`; returns the id of the image."""
    file = build.file or "Dockerfile"

    def ask(api: Any) -> Any:
        from docker.utils.build import tar

        with tar(str(build.folder), exclude=_ignored(build.folder), dockerfile=(file, None)) as context:
            headers = {"Content-Type": "application/tar"}
            api._set_auth_headers(headers)
            params = _build_params(build, file)
            return api._post(
                api._url("/build"), data=context, params=params, headers=headers, stream=True, timeout=NO_DEADLINE
            )

    if STATE in Path(file).parts or not (build.folder / file).is_file():
        raise EngineFailed(
            EngineErrorReason.BUILD_FAILED, f"{build.folder} has no {file}", "create one, or correct `build`"
        )
    identity, last = "", deque[str](maxlen=LINES_KEPT)
    with client.deadline(limits.ENGINE_BUILD_S):
        try:
            async with client.stream(ask, timeout_s=limits.ENGINE_BUILD_S) as stream:
                async for value in _each(stream.values()):
                    identity = (value.get("aux") or {}).get("ID") or identity
                    for line in (value.get("stream") or "").splitlines():
                        if line.strip():
                            last.append(line)
                            on_line(line)
        except EngineFailed as failed:
            raise _build_error(failed, last) from failed
    return identity


def _build_params(build: ImageBuild, file: str) -> dict[str, Any]:
    return {
        "dockerfile": file,
        "target": build.target or None,
        "buildargs": json.dumps(dict(build.args)),
        "rm": True,
        "forcerm": True,
    }


def _ignored(folder: Path) -> list[str]:
    """The patterns of `.dockerignore`, and the state of plans last, so that no pattern can include it again."""
    file = folder / ".dockerignore"
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    written = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [*written, f"**/{STATE}", f"**/{STATE}/**"]


def _build_error(failed: EngineFailed, last: deque[str]) -> EngineFailed:
    """The error of a failed build: of the failed step, or of the engine if no step failed."""
    if failed.reason in (
        EngineErrorReason.ENGINE_DOWN,
        EngineErrorReason.NO_ACCESS,
        EngineErrorReason.TIMED_OUT,
        EngineErrorReason.DISK_FULL,
        EngineErrorReason.NO_REGISTRY,
    ):
        return failed
    hint = "correct the Dockerfile"
    if "buildkit" in str(failed).lower():
        hint = "run `docker buildx build --load -t NAME .` and set `image: NAME`"
    elif docker_errors.has_no_network("\n".join((*last, str(failed)))):
        hint = docker_errors.BUILD_NETWORK_HINT
    return EngineFailed(EngineErrorReason.BUILD_FAILED, "\n".join(("the build failed", *last, str(failed))), hint)


async def _each(values: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """Yield the values of a stream that started with a success status. Raises at a value with an error."""
    async for value in values:
        if "error" in value or "errorDetail" in value:
            detail = value.get("errorDetail") or {}
            raise docker_errors.engine_error(str(detail.get("message") or value.get("error")))
        yield value


class PullProgress:
    """Progress of a pull, as text."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()
        self._status = ""

    def note(self, value: Mapping[str, Any]) -> None:
        """Take one value of the response stream of a pull."""
        status, layer = str(value.get("status") or ""), str(value.get("id") or "")
        if status in ("Pulling fs layer", "Waiting", "Already exists"):
            self._layers.setdefault(layer, (0, 0))
        detail = value.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = (int(detail.get("current") or 0), int(detail["total"]))
        if status in ("Already exists", "Pull complete"):
            self._done.add(layer)
        if not layer:
            self._status = status

    def words(self) -> str:
        """`2 of 5 layers, 12 of 40 MB`; the engine's own message before it has listed layers."""
        if not self._layers:
            return self._status
        got, total = (sum(each[side] for each in self._layers.values()) for side in (0, 1))
        layers = f"{len(self._done)} of {len(self._layers)} layers"
        return f"{layers}, {got // MEGABYTE} of {total // MEGABYTE} MB" if total else layers


NO_COMMAND_CODES: Final = (1, 126, 127)
"""Exit codes of an init process that could not run its command: the first is Podman's, the others are Docker's."""
INIT_PIECES: Final = 3
"""How much of a log to read so that the last line is complete: Podman 4 counts each written piece as a line."""

NOT_PAUSED: Final = ("is not paused", "resume a stopped container")
"""Messages of engines that are asked to unpause a container that is not paused, or has ended."""


class DockerEngine:
    """The `ContainerEngine` that the environment selects. Connects and imports at the first call.

    `sees_host`: kill processes in containers from the host if possible, else from inside.
    """

    def __init__(self, env: Mapping[str, str], *, sees_host: bool = True) -> None:
        self._client = DockerClient(env)
        self._naming = anyio.Lock()
        self._is_podman: bool | None = None
        self._execs = docker_exec.DockerExecs(self._client, sees_host=sees_host)

    async def facts(self) -> EngineFacts:
        info, version = await self._client.call(lambda api: (api.info(), api.version()))
        return docker_json.engine_facts_from_json(info, version, self._client.address)

    async def image(self, name: str) -> ImageFacts | None:
        with _gone_is_fine():
            return docker_json.image_from_json(await self._client.call(lambda api: api.inspect_image(name)))
        return None

    async def pull(self, name: str, on_progress: Callable[[str], None]) -> ImageFacts:
        await pull_image(self._client, name, on_progress)
        return await self._made(name)

    async def load(self, archive: Path) -> ImageFacts:
        return await self._made(await load_image(self._client, archive))

    async def build(self, build: ImageBuild, on_line: Callable[[str], None]) -> ImageFacts:
        return await self._made(await build_image(self._client, build, on_line))

    async def _made(self, name: str) -> ImageFacts:
        image = await self.image(name)
        if image is None:
            raise EngineFailed(
                EngineErrorReason.NO_IMAGE,
                f"the image {name} was removed immediately",
                "find the program that removes images",
            )
        return image

    async def networks(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        raw = await self._selected(labels, lambda api, filters: api.networks(filters=filters))
        return tuple(sorted(one["Name"] for one in raw))

    async def make_network(self, name: str, labels: Mapping[str, str], *, is_internal: bool) -> None:
        # Engines check and reserve the name in two steps: concurrent calls would create two networks, and neither
        # works.
        async with self._naming:
            there = await self._networks_named(name)
            if not there:
                with _if(EngineErrorReason.NAME_TAKEN):  # Another process created it first.
                    await self._client.call(
                        lambda api: api.create_network(
                            name, driver="bridge", internal=is_internal, labels=dict(labels), check_duplicate=True
                        )
                    )
                there = await self._networks_named(name)
            first, *others = there
            _check_ours("network", name, first.get("Labels"), labels)
            for other in others:
                await self._remove_network(other["Id"])

    async def _networks_named(self, name: str) -> list[Any]:
        """Networks with exactly that name, the oldest first. If there are several, the name is ambiguous."""
        raw = await self._client.call(lambda api: api.networks(names=[name]))
        return sorted((one for one in raw if one["Name"] == name), key=lambda one: (one["Created"], one["Id"]))

    async def remove_network(self, name: str) -> None:
        found = await self._networks_named(name)
        for one in found:
            # Removed by id, Podman 4 and 5 detach it from running containers.
            await self._remove_network(one["Id"] if len(found) > 1 else name)

    async def _remove_network(self, identity: str) -> None:
        with _gone_is_fine():
            await self._client.call(lambda api: api.remove_network(identity))

    async def volumes(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        raw = await self._selected(labels, lambda api, filters: api.volumes(filters=filters)["Volumes"] or [])
        return tuple(sorted(one["Name"] for one in raw))

    async def make_volume(self, name: str, labels: Mapping[str, str]) -> None:
        made = await self._client.call(lambda api: api.create_volume(name, labels=dict(labels)))
        _check_ours("volume", name, made.get("Labels"), labels)

    async def remove_volume(self, name: str) -> None:
        with _gone_is_fine():
            await self._client.call(lambda api: api.remove_volume(name))

    async def _selected(self, labels: Mapping[str, str], ask: Callable[[Any, dict[str, Any]], Any]) -> Any:
        filters = {"label": docker_json.label_filters(labels)}
        return await self._client.call(lambda api: ask(api, filters)) if labels else []

    async def containers(self, labels: Mapping[str, str]) -> tuple[FoundContainer, ...]:
        raw = await self._selected(labels, lambda api, filters: api.containers(all=True, filters=filters))
        found: dict[str, FoundContainer | None] = {}

        async def look(one: Any) -> None:
            found[one["Id"]] = await self._looked_at(one)

        async with engine_task_group() as group:
            for one in raw:
                group.start_soon(look, one)
        return tuple(each for one in raw if (each := found[one["Id"]]) is not None)

    async def _looked_at(self, listed: Any) -> FoundContainer | None:
        """Inspect one of many containers. An engine may hang for one of them and respond for all others."""
        with anyio.move_on_after(limits.ENGINE_LOOK_S):
            return await self.container(listed["Id"])
        return docker_json.listed_container_from_json(listed)

    async def container(self, ref: str) -> FoundContainer | None:
        with _gone_is_fine():
            raw = await self._inspected(ref)
            found = docker_json.container_from_json(raw)
            if found.state == "exited" and found.last_run.exit_code in NO_COMMAND_CODES and not found.last_run.error:
                error = await self._said_by_init(found.id, docker_json.program_from_json(raw))
                return remade(found, last_run=remade(found.last_run, error=error))
            return found
        return None

    async def _said_by_init(self, ref: str, program: str) -> str:
        """Why the container's init process could not run `program`; empty if it could."""
        log = await self._client.call(lambda api: api.logs(ref, stdout=False, tail=INIT_PIECES))
        return docker_errors.init_error((log.decode(errors="replace").splitlines() or [""])[-1], program)

    async def _inspected(self, ref: str) -> Any:
        return await self._client.call(lambda api: api.inspect_container(ref))

    async def create(self, creation: ContainerCreation) -> str:
        body = docker_json.creation_json(creation, is_podman=await self._is_podman_asked(creation))
        try:
            made = await self._client.call(lambda api: api.create_container_from_config(body, creation.name))
            identity, connected = str(made["Id"]), set(creation.network.names[:1])
        except EngineFailed as failed:
            if failed.reason is not EngineErrorReason.NAME_TAKEN:
                raise
            raw = await self._inspected(creation.name)
            _check_ours("container", creation.name, raw["Config"].get("Labels"), creation.labels)
            identity, connected = str(raw["Id"]), set(raw["NetworkSettings"]["Networks"] or {})
        # Before API 1.44, a call takes one network. After a crash of the owner, some networks may be missing.
        for network in creation.network.names:
            if network not in connected:
                await self._connect(identity, network, creation)
        return identity

    async def _is_podman_asked(self, creation: ContainerCreation) -> bool:
        """Whether Podman will create it. Asked once, and only for containers that Docker and Podman create
        differently."""
        if self._is_podman is None and any(map(docker_json.is_tmpfs, creation.mounts)):
            self._is_podman = docker_json.is_podman(await self._client.call(lambda api: api.version()))
        return bool(self._is_podman)

    async def _connect(self, identity: str, network: str, creation: ContainerCreation) -> None:
        aliases = list(creation.network.aliases)
        await self._client.call(lambda api: api.connect_container_to_network(identity, network, aliases=aliases))

    async def start(self, ref: str) -> None:
        if await self._thaw(ref):
            return
        # If another client resumed the container, this start does nothing. If it ended instead, it is restarted.
        await self._client.call(lambda api: api.start(ref))
        # The init process always starts. Whether it finds the command is known a moment later.
        started = await self.container(ref)
        if started is not None and started.state == "exited" and started.last_run.error:
            raise docker_errors.no_command_error(started.last_run.error)

    async def stop(self, ref: str, grace_s: float) -> None:
        await self._thaw(ref)
        whole_s = math.ceil(grace_s)
        with _gone_is_fine():
            await self._client.call(
                lambda api: api.stop(ref, timeout=whole_s), timeout_s=limits.ENGINE_CALL_S + whole_s
            )

    async def _thaw(self, ref: str) -> bool:
        """Unpause a paused container; return whether this call did it.

        A paused container does not react to TERM, engines refuse to stop it, and Docker hangs when it removes one.
        """
        found = await self.container(ref)
        if found is None or found.state != "paused":
            return False
        try:
            await self._client.call(lambda api: api.unpause(ref))
        except EngineFailed as failed:
            is_gone = failed.reason in (EngineErrorReason.NOT_FOUND, EngineErrorReason.NO_IMAGE)
            if not is_gone and not any(words in str(failed) for words in NOT_PAUSED):
                raise
            return False
        return True

    async def remove(self, ref: str) -> None:
        await self._thaw(ref)
        try:
            with _gone_is_fine():
                await self._client.call(lambda api: api.remove_container(ref, force=True, v=True))
        except EngineFailed as failed:
            if "already in progress" not in str(failed):
                raise

            async def is_gone() -> bool:
                return await self.container(ref) is None

            with self._client.deadline(limits.ENGINE_CALL_S):
                await poll_until(is_gone)

    async def update(self, ref: str, bound: ContainerLimits) -> None:
        body = docker_json.limits_json(bound)

        def ask(api: Any) -> Any:
            return api._result(api._post_json(api._url("/containers/{0}/update", ref), data=body), True)

        await self._client.call(ask)

    async def run(self, ref: str, inside: ExecCommand) -> ExecEnd:
        return await self._execs.run(ref, inside)

    async def end(self, ref: str, mark: str) -> None:
        await self._execs.end(ref, mark)

    async def logs(self, ref: str, *, after: float = 0.0, is_following: bool = True) -> AsyncGenerator[bytes, None]:
        params = {"stdout": 1, "stderr": 1, "follow": int(is_following), "since": f"{after:.9f}"}

        def ask(api: Any) -> Any:
            return api._get(api._url("/containers/{0}/logs", ref), params=params, stream=True, timeout=NO_DEADLINE)

        async with self._client.stream(ask) as stream:
            async for piece in stream.pieces(FrameDecoder().feed):
                yield piece

    async def events(self, labels: Mapping[str, str]) -> AsyncGenerator[EngineEvent, None]:
        filters = {"type": ["container"], "label": docker_json.label_filters(labels)}

        def ask(api: Any) -> Any:
            from docker.utils import convert_filters

            params = {"filters": convert_filters(filters)}
            return api._get(api._url("/events"), params=params, stream=True, timeout=NO_DEADLINE)

        if not labels:
            return
        async with self._client.stream(ask) as stream:
            yield LISTENING
            async for value in stream.values():
                event = docker_json.event_from_json(value)
                if labels.items() <= event.labels.items():  # Podman selects containers with any of several labels.
                    yield event
        raise self._client.broken_off()


@contextmanager
def _if(*fine: EngineErrorReason) -> Iterator[None]:
    """Suppress EngineFailed with one of the reasons `fine`."""
    try:
        yield
    except EngineFailed as failed:
        if failed.reason not in fine:
            raise


def _gone_is_fine() -> AbstractContextManager[None]:
    """Suppress errors about objects that are missing or already removed."""
    return _if(EngineErrorReason.NOT_FOUND, EngineErrorReason.NO_IMAGE)


def _check_ours(kind: str, name: str, found: Mapping[str, str] | None, wanted: Mapping[str, str]) -> None:
    """Raise EngineFailed NAME_TAKEN unless the existing object has all the wanted labels."""
    if not wanted.items() <= (found or {}).items():
        remove = {"container": "docker rm", "network": "docker network rm", "volume": "docker volume rm"}[kind]
        raise EngineFailed(
            EngineErrorReason.NAME_TAKEN,
            f"a {kind} {name} exists that does not belong to this plan",
            f"if it is not needed, run {remove} {name}",
        )
