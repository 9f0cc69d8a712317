"""A container engine for real: Docker 20.10 and later, or Podman's Docker socket, through the `docker` package.

Which call of the API serves which method, and in which order. Next door: threads and deadlines (`docker_client.py`),
the API's JSON (`docker_json.py`), its refusals (`docker_faults.py`), commands inside (`docker_exec.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from containers import docker_exec, docker_json
from containers.docker_client import Client
from containers.engine import (
    Creation,
    Ended,
    EngineFacts,
    EngineFailed,
    Event,
    Found,
    ImageFacts,
    Inside,
    Reason,
)
from containers.framing import Frames
from schemas import limits


@contextmanager
def suppress_missing() -> Iterator[None]:
    """What is gone, or was never there, is no fault."""
    try:
        yield
    except EngineFailed as failed:
        if failed.reason not in (Reason.NOT_FOUND, Reason.NO_IMAGE):
            raise


LISTENING = Event("", "listening", {})


class DockerEngine:
    """The `Engine` that the environment names. Nothing is asked of it, and nothing imported, before the first call."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._client = Client(env)

    async def facts(self) -> EngineFacts:
        info, version = await self._client.call(lambda api: (api.info(), api.version()))
        return docker_json.facts_of(info, version, self._client.address)

    async def image(self, name: str) -> ImageFacts | None:
        with suppress_missing():
            return docker_json.image_of(await self._client.call(lambda api: api.inspect_image(name)))
        return None

    async def load(self, archive: Path) -> ImageFacts:
        def load(api: Any) -> Any:
            with archive.open("rb") as source:
                return api._post(api._url("/images/load"), data=source, params={"quiet": 1}, stream=True)

        said = ""
        async with self._client.stream(load) as stream:
            async for value in stream.values():
                said += value.get("stream", "")
        name = said.rpartition(": ")[2].strip()
        image = await self.image(name)
        assert image is not None
        return image

    async def networks(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        raw = await self._selected(labels, lambda api, filters: api.networks(filters=filters))
        return tuple(sorted(one["Name"] for one in raw))

    async def _selected(self, labels: Mapping[str, str], ask: Callable[[Any, dict[str, Any]], Any]) -> Any:
        filters = {"label": docker_json.label_filters(labels)}
        return await self._client.call(lambda api: ask(api, filters)) if labels else []

    async def make_network(self, name: str, labels: Mapping[str, str], *, is_internal: bool) -> None:
        await self._client.call(
            lambda api: api.create_network(
                name, driver="bridge", internal=is_internal, labels=dict(labels), check_duplicate=True
            )
        )

    async def remove_network(self, name: str) -> None:
        with suppress_missing():
            await self._client.call(lambda api: api.remove_network(name))

    async def containers(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        raw = await self._selected(labels, lambda api, filters: api.containers(all=True, filters=filters))
        found = [await self.container(one["Id"]) for one in raw]
        return tuple(one for one in found if one is not None)

    async def container(self, ref: str) -> Found | None:
        with suppress_missing():
            return docker_json.found_of(await self._client.call(lambda api: api.inspect_container(ref)))
        return None

    async def create(self, creation: Creation) -> str:
        body = docker_json.creation_json(creation)
        made = await self._client.call(lambda api: api.create_container_from_config(body, creation.name))
        return str(made["Id"])

    async def start(self, ref: str) -> None:
        await self._client.call(lambda api: api.start(ref))

    async def stop(self, ref: str, grace_s: float) -> None:
        await self._client.call(lambda api: api.stop(ref, timeout=grace_s), timeout_s=limits.ENGINE_CALL_S + grace_s)

    async def remove(self, ref: str) -> None:
        with suppress_missing():
            await self._client.call(lambda api: api.remove_container(ref, force=True, v=True))

    async def run(self, ref: str, inside: Inside) -> Ended:
        return await docker_exec.run(self._client, ref, inside)

    async def logs(self, ref: str, *, after: float = 0.0, is_following: bool = True) -> AsyncIterator[bytes]:
        params = {"stdout": 1, "stderr": 1, "follow": int(is_following), "since": f"{after:.9f}"}
        frames = Frames()

        def ask(api: Any) -> Any:
            url = api._url("/containers/{0}/logs", ref)
            return api._get(url, params=params, stream=True, timeout=(limits.ENGINE_CALL_S, None))

        async with self._client.stream(ask) as stream:
            async for piece in stream.pieces():
                if out := frames.feed(piece):
                    yield out
