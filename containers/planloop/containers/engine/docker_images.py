"""Pull, load and build images through the engine, with line-by-line progress."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from planloop.containers.engine import docker_errors
from planloop.containers.engine.docker_client import NO_DEADLINE, DockerClient
from planloop.containers.engine.engine import EngineErrorReason, EngineFailed, ImageBuild
from planloop.schemas import limits

LINES_KEPT: Final = 12  # Of a build that failed: the step, the command, and what it said last.
MEGABYTE: Final = 1_000_000
STATE: Final = ".plan"


async def pull_image(client: DockerClient, name: str, on_progress: Callable[[str], None]) -> None:
    """See `ContainerEngine.pull`. The credentials are those that `docker login` has kept."""

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
    """See `ContainerEngine.load`; the name or id of what was loaded."""

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
            f"{archive.name} has no image in it",
            "write it by `docker save` or `plan image make`",
        )
    return name


async def build_image(client: DockerClient, build: ImageBuild, on_line: Callable[[str], None]) -> str:
    """See `ContainerEngine.build`; the id of what was built."""
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
            EngineErrorReason.BUILD_FAILED, f"there is no {file} in {build.folder}", "write one, or correct `build`"
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
            raise _build_fault(failed, last) from failed
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
    """What `.dockerignore` leaves out, and last, where it cannot take that in again, the state of plans."""
    file = folder / ".dockerignore"
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    written = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [*written, f"**/{STATE}", f"**/{STATE}/**"]


def _build_fault(failed: EngineFailed, last: deque[str]) -> EngineFailed:
    """The step that failed is the fault, whatever the words are; where there was none, the engine itself failed."""
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
        hint = "build it by `docker buildx build --load -t NAME .` and give that name as `image`"
    return EngineFailed(EngineErrorReason.BUILD_FAILED, "\n".join(("the build failed", *last, str(failed))), hint)


async def _each(values: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """The values of a stream whose status said that all was well, up to the one that says that it was not."""
    async for value in values:
        if "error" in value or "errorDetail" in value:
            detail = value.get("errorDetail") or {}
            raise docker_errors.engine_error(str(detail.get("message") or value.get("error")))
        yield value


class PullProgress:
    """How far the layers of an image are, in words for people."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()
        self._status = ""

    def note(self, value: Mapping[str, Any]) -> None:
        """Takes one value of the stream that an engine answers a pull with."""
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
        """`2 of 5 layers, 12 of 40 MB`; the engine's own words while it has named no layer."""
        if not self._layers:
            return self._status
        got, total = (sum(each[side] for each in self._layers.values()) for side in (0, 1))
        layers = f"{len(self._done)} of {len(self._layers)} layers"
        return f"{layers}, {got // MEGABYTE} of {total // MEGABYTE} MB" if total else layers
