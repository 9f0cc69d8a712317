"""Jobs of an existing container: keep its output, probe its health, stop it, remove it, change its limits."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread

from planloop.containers.engine.engine import HEALS, ContainerLimits, EngineErrorReason, EngineFailed, ExecCommand
from planloop.containers.engine.names import container_networks
from planloop.controllers.container import records
from planloop.controllers.container.context import ContainerContext
from planloop.controllers.container.decide import START, container_backoff_s
from planloop.controllers.container.observe import limits_digest, live_jobs
from planloop.controllers.container.records import ContainerStatusWriter
from planloop.controllers.container.status import ProbeResult, SeenContainer, read_container_status
from planloop.controllers.shared.container_exec import container_masks
from planloop.reconciler.effects.processes import ExitCause
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import OWN_HOSTS, Health, container_from_json, running_digest


@frozen
class LogJob:
    """Keeps the output of the current run of the container at `address`."""

    context: ContainerContext
    address: str
    uid: str

    async def __call__(self) -> None:
        """Return when the run is over and all of its available output is kept."""
        writer = ContainerStatusWriter(self.context, self.address, self.uid)
        resource = writer.resource
        status = None if resource is None else read_container_status(resource.status)
        if resource is None or status is None or status.seen is None:
            return
        # From the end of the previous run on: a fast program may write before the engine reports its start.
        found, after = status.seen, max(0.0, status.ended.counted)
        spec = container_from_json(resource.spec)
        output = self.context.output(self.address, spec.logs_bytes)
        failures = 0
        while True:
            output.clear()
            try:
                masked = (await container_masks(self.context.engine, found.id)).stream()
                async for piece in self.context.engine.logs(found.id, after=after):
                    output.add(masked.feed(piece))
                output.add(masked.flush())
                break
            except EngineFailed as failure:
                if failure.reason not in HEALS:
                    if failure.reason is not EngineErrorReason.NOT_FOUND:
                        output.add(f"--- its output is not available: {failure}\n".encode())
                    break
            failures += 1
            await self.context.clock.sleep(container_backoff_s(failures))
        written = output.read()
        blob = self.context.store.put_blob(written) if written else None
        last = written[-limits.CONTAINER_LAST_CHARS :].decode(errors="replace")
        done: JsonObject = {"logged": found.started_at, "log": blob, "last": last or None}
        await writer.write(lambda _: done)


PROBE_MARK: Final = "health"
SOON_S: Final = 0.1  # Between the first and the second probe of a starting container.
_NOT_ABOUT_HEALTH: Final = HEALS | {EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING}
"""Errors of the engine that say nothing about the program in the container."""


@frozen
class HealthJob:
    """Probes the health of the container at `address` while it runs, and writes changes into its status."""

    context: ContainerContext
    address: str
    uid: str

    async def __call__(self) -> None:
        """Return when this run of the container is over."""
        writer = ContainerStatusWriter(self.context, self.address, self.uid)
        failures, began, run = 0, self.context.clock.now(), -1.0
        pauses: Iterator[float] | None = None
        while True:
            resource = writer.resource
            found = None if resource is None else read_container_status(resource.status).seen
            if resource is None or found is None or found.run != "running" or run not in (-1.0, found.started_at):
                return
            run = found.started_at
            spec = container_from_json(resource.spec)
            health = spec.health
            if health is None:
                return
            pauses = first_probe_pauses(health.interval_s) if pauses is None else pauses
            pause_s = next(pauses, None)
            try:
                problem = await self._probe(health, found)
            except EngineFailed:
                pass  # Says nothing about the program: probe again.
            else:
                if problem is None:
                    failures, pauses, pause_s = 0, iter(()), None
                elif pause_s is None:  # Failed probes within the first interval do not count.
                    failures += 1
                is_early = self.context.clock.now() - began < health.start_period_s
                if problem is None or (failures >= health.retries and not is_early):
                    await self._write(writer, ProbeResult(run, problem is None, problem or ""))
            await self.context.clock.sleep(health.interval_s if pause_s is None else pause_s)

    async def _write(self, writer: ContainerStatusWriter, probed: ProbeResult) -> None:
        """Write the result if the health changed; another message alone is not written."""
        resource = writer.resource
        known = ProbeResult() if resource is None else read_container_status(resource.status).probed
        if (known.started_at, known.is_well) == (probed.started_at, probed.is_well):
            return
        merge = {"started_at": probed.started_at, "is_well": probed.is_well, "said": probed.said}
        await writer.write(lambda _: {"probed": merge})

    async def _probe(self, health: Health, found: SeenContainer) -> str | None:
        """Return why the container is unhealthy; None if it is healthy.

        Raises:
            EngineFailed: the engine failed, which says nothing about the program.
        """
        try:
            if health.cmd:
                return await self._probe_inside(health, found)
            with anyio.fail_after(health.timeout_s):
                return await probe_from_host(health, found)
        except TimeoutError:
            return _late_message(health)
        except EngineFailed as failed:
            if failed.reason in _NOT_ABOUT_HEALTH:
                raise
            return str(failed)

    async def _probe_inside(self, health: Health, found: SeenContainer) -> str | None:
        ended = await self.context.engine.run(
            found.id, ExecCommand(health.cmd, f"{PROBE_MARK}-{self.uid}", timeout_s=health.timeout_s)
        )
        if ended.ending is ExitCause.TIMED_OUT:
            return _late_message(health)
        if ended.ending is ExitCause.EXITED and ended.code == 0:
            return None
        # Mask before cutting: half of a cut secret would not be recognised.
        output = (await container_masks(self.context.engine, found.id)).mask(ended.output)
        line = output[-200:].decode(errors="replace").strip().rpartition("\n")[2]
        how = f"exit code {ended.code}" if ended.ending is ExitCause.EXITED else ended.ending.value
        return f"{how}: {line}" if line else how


def first_probe_pauses(interval_s: float) -> Iterator[float]:
    """Yield the seconds between the probes of the first interval: short at first, doubling, until it is over."""
    pause_s, left_s = SOON_S, interval_s
    while left_s > 0:
        yield min(pause_s, left_s)
        left_s -= pause_s
        pause_s *= 2


def _late_message(health: Health) -> str:
    return f"no answer within {health.timeout_s:g} s"


async def probe_from_host(health: Health, found: SeenContainer) -> str | None:
    """Probe a port or URL at the container's address; return why it is unhealthy, None if it is healthy."""
    host = next((address for _, address in found.addresses if address), "")
    if not host:  # Never probe the loopback address of this machine instead.
        return "it cannot be reached: it has no address in any network"
    return await _probe_tcp(health, host) if health.tcp else await probe_http(health.http, host)


async def _probe_tcp(health: Health, host: str) -> str | None:
    try:
        stream = await anyio.connect_tcp(host, health.tcp)
    except OSError as error:
        return f"port {health.tcp}: {error.strerror or error}"
    await stream.aclose()
    return None


async def probe_http(url: str, host: str) -> str | None:
    """Request `url` from the container at `host`; return why it is unhealthy, None for a status below 400.

    Redirects are not followed: the program in a container must not choose which hosts the owner connects to.
    """
    # Imported here in a thread: it takes 0.1 s and more, and only HTTP probes need it.
    aiohttp = await anyio.to_thread.run_sync(importlib.import_module, "aiohttp")
    try:
        where = _host_url(url, host)
        async with aiohttp.ClientSession() as session, session.get(where, allow_redirects=False) as answer:
            return None if answer.status < 400 else f"{url}: status {answer.status}"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"{url}: {error}"


def _host_url(url: str, host: str) -> str:
    """Return `url` for use from this machine: the container's address replaces its loopback address."""
    if url.startswith(":"):
        return f"http://{host}{url}"
    parts = urlsplit(url)
    if parts.hostname not in OWN_HOSTS:
        return url
    return urlunsplit(parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}"))


_NOT_ENFORCED = "the engine does not enforce all of its limits"


@frozen
class StopJobs:
    """Runs `act` (stop, remove or update) on the existing container at `address`."""

    context: ContainerContext
    address: str
    uid: str
    act: Callable[[ContainerStatusWriter, SeenContainer], Awaitable[None]]

    async def __call__(self) -> None:
        """Return when the act is done, or when the status says why it is not."""
        writer = ContainerStatusWriter(self.context, self.address, self.uid)
        found = None if writer.resource is None else read_container_status(writer.resource.status).seen
        if found is None:
            return
        try:
            await self.act(writer, found)
        except EngineFailed as failure:
            await writer.write(records.stuck_merge(failure, self.context.clock.now()))


async def stop_container(writer: ContainerStatusWriter, found: SeenContainer) -> None:
    """Stop the container. The status says first that planloop stops it."""
    await writer.write(lambda _: {"stopping": found.started_at})
    await writer.context.engine.stop(found.id, limits.CONTAINER_STOP_S)
    await writer.look(found.id, {"stuck": None})


async def remove_container(writer: ContainerStatusWriter, found: SeenContainer) -> None:
    """Remove the container, and the networks that no other container uses."""
    resource = writer.resource
    is_other = resource is not None and found.tag.digest != running_digest(container_from_json(resource.spec))
    counts = ("failures", "tries", "losses") if is_other else ()
    gone: JsonObject = dict.fromkeys(("stuck", *counts))
    await writer.context.engine.remove(found.id)
    await writer.look(found.id, gone)  # Failures of an older version of the container no longer count.
    if unused := {writer.context.names.network(network) for network in _unused_networks(writer)}:
        with suppress(EngineFailed):  # A foreign container may have joined it; the teardown of the plan reports that.
            for network in unused.intersection(await writer.context.networks()):
                await writer.context.engine.remove_network(network)


def _unused_networks(writer: ContainerStatusWriter) -> set[str]:
    """Return the networks of this container that no other container is on, or about to join."""
    mine: set[str] = set()
    others: set[str] = set()
    for one in writer.context.store.view.list("container"):
        networks = container_networks(container_from_json(one.spec))
        if one.address == writer.address:
            mine |= set(networks)
        elif read_container_status(one.status).seen is not None or START in live_jobs(writer.context.work, one.address):
            others |= set(networks)
    return mine - others


async def update_limits(writer: ContainerStatusWriter, found: SeenContainer) -> None:
    """Set the limits of the container to those of the plan; if the engine refuses, the status says why."""
    resource = writer.resource
    if resource is None:
        return
    spec = container_from_json(resource.spec)
    wanted, refused = ContainerLimits(spec.cpu, spec.memory_bytes, spec.pids), ""
    try:
        await writer.context.engine.update(found.id, wanted)
    except EngineFailed as failure:
        if failure.reason in HEALS:
            raise
        refused = f"its limits were not changed: {failure}"
    updated = await writer.look(found.id, {"stuck": None})
    if not refused and updated is not None and updated.bound != wanted:
        refused = _NOT_ENFORCED
    is_refused: JsonObject = {"bound_of": limits_digest(spec), "bound_why": refused}
    await writer.write(lambda _: is_refused if refused else {"bound_of": None, "bound_why": None})
