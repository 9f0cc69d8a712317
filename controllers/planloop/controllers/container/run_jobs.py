"""The jobs of a container that exists: keep its output, probe its health, stop it, remove it, change its limits."""

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
    """Keeps what the container at `address` writes in its present run."""

    yard: ContainerContext
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when the run is over and its output is kept whole, as far as it is to be had."""
        page = ContainerStatusWriter(self.yard, self.address, self.uid)
        resource = page.resource
        status = None if resource is None else read_container_status(resource.status)
        if resource is None or status is None or status.seen is None:
            return
        found, after = (
            status.seen,
            max(0.0, status.ended.counted),
        )  # What is quick writes before engines say that it started.
        spec = container_from_json(resource.spec)
        output = self.yard.output(self.address, spec.logs_bytes)
        failures = 0
        while True:
            output.clear()
            try:
                quiet = (await container_masks(self.yard.engine, found.id)).stream()
                async for piece in self.yard.engine.logs(found.id, after=after):
                    output.add(quiet.feed(piece))
                output.add(quiet.flush())
                break
            except EngineFailed as fault:
                if fault.reason not in HEALS:
                    if fault.reason is not EngineErrorReason.NOT_FOUND:
                        output.add(f"--- its output is not to be had: {fault}\n".encode())
                    break
            failures += 1
            await self.yard.clock.sleep(container_backoff_s(failures))
        written = output.read()
        blob = self.yard.store.put_blob(written) if written else None
        last = written[-limits.CONTAINER_LAST_CHARS :].decode(errors="replace")
        done: JsonObject = {"logged": found.started_at, "log": blob, "last": last or None}
        await page.write(lambda _: done)


PROBE_MARK: Final = "health"
SOON_S: Final = 0.1  # From the first look at one that comes up to the second.
_SAYS_NOTHING: Final = HEALS | {EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING}
"""Faults of the engine that say nothing about what runs in it."""


@frozen
class HealthJob:
    """Asks for the health of the container at `address` as long as it runs, and writes when that changes."""

    yard: ContainerContext
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when this run of it is over."""
        page = ContainerStatusWriter(self.yard, self.address, self.uid)
        failures, began, run = 0, self.yard.clock.now(), -1.0
        pauses: Iterator[float] | None = None
        while True:
            resource = page.resource
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
                fault = await self._fault(health, found)
            except EngineFailed:
                pass  # Asked again: it says nothing about what runs in it.
            else:
                if fault is None:
                    failures, pauses, pause_s = 0, iter(()), None
                elif pause_s is None:  # Within its first interval, that it is not well yet is no failure.
                    failures += 1
                is_early = self.yard.clock.now() - began < health.start_period_s
                if fault is None or (failures >= health.retries and not is_early):
                    await self._write(page, ProbeResult(run, fault is None, fault or ""))
            await self.yard.clock.sleep(health.interval_s if pause_s is None else pause_s)

    async def _write(self, page: ContainerStatusWriter, probed: ProbeResult) -> None:
        """Writes it when it is another than before; that it says the same in other words is no news."""
        resource = page.resource
        known = ProbeResult() if resource is None else read_container_status(resource.status).probed
        if (known.started_at, known.is_well) == (probed.started_at, probed.is_well):
            return
        merge = {"started_at": probed.started_at, "is_well": probed.is_well, "said": probed.said}
        await page.write(lambda _: {"probed": merge})

    async def _fault(self, health: Health, found: SeenContainer) -> str | None:
        """What is wrong with it; None when it is well. Raises EngineFailed for faults that say nothing about that."""
        try:
            if health.cmd:
                return await self._inside(health, found)
            with anyio.fail_after(health.timeout_s):
                return await probe_from_host(health, found)
        except TimeoutError:
            return _late(health)
        except EngineFailed as failed:
            if failed.reason in _SAYS_NOTHING:
                raise
            return str(failed)

    async def _inside(self, health: Health, found: SeenContainer) -> str | None:
        ended = await self.yard.engine.run(
            found.id, ExecCommand(health.cmd, f"{PROBE_MARK}-{self.uid}", timeout_s=health.timeout_s)
        )
        if ended.ending is ExitCause.TIMED_OUT:
            return _late(health)
        if ended.ending is ExitCause.EXITED and ended.code == 0:
            return None
        # First: of a secret that is cut, half would be seen.
        output = (await container_masks(self.yard.engine, found.id)).mask(ended.output)
        said = output[-200:].decode(errors="replace").strip().rpartition("\n")[2]
        how = f"exit code {ended.code}" if ended.ending is ExitCause.EXITED else ended.ending.value
        return f"{how}: {said}" if said else how


def first_probe_pauses(interval_s: float) -> Iterator[float]:
    """Seconds between the looks within the first interval: short ones, that double, until it is over."""
    pause_s, left_s = SOON_S, interval_s
    while left_s > 0:
        yield min(pause_s, left_s)
        left_s -= pause_s
        pause_s *= 2


def _late(health: Health) -> str:
    return f"no answer within {health.timeout_s:g} s"


async def probe_from_host(health: Health, found: SeenContainer) -> str | None:
    """What is wrong with it by its port or its answer, asked at its own address; None when it is well."""
    host = next((address for _, address in found.addresses if address), "")
    if not host:  # This machine's own loopback is nothing to ask in its stead.
        return "nobody reaches it: it has no address"
    return await _connects(health, host) if health.tcp else await http_probe_fault(health.http, host)


async def _connects(health: Health, host: str) -> str | None:
    try:
        stream = await anyio.connect_tcp(host, health.tcp)
    except OSError as error:
        return f"port {health.tcp}: {error.strerror or error}"
    await stream.aclose()
    return None


async def http_probe_fault(url: str, host: str) -> str | None:
    """What is wrong with what `url` answers in the container at `host`; None for a status below 400.

    Where it leads on to is not followed: what runs in a container says no word on whom the owner asks.
    """
    # Taken in by a thread, because it takes 0.1 s and more; who asks for no health by HTTP goes without.
    aiohttp = await anyio.to_thread.run_sync(importlib.import_module, "aiohttp")
    try:
        where = _seen_from_here(url, host)
        async with aiohttp.ClientSession() as session, session.get(where, allow_redirects=False) as answer:
            return None if answer.status < 400 else f"{url}: status {answer.status}"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"{url}: {error}"


def _seen_from_here(url: str, host: str) -> str:
    """`url` as it is written for the inside, with the container's own address in place of its loopback."""
    if url.startswith(":"):
        return f"http://{host}{url}"
    parts = urlsplit(url)
    if parts.hostname not in OWN_HOSTS:
        return url
    return urlunsplit(parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}"))


_NOT_HELD = "the engine does not hold all of its limits"


@frozen
class StopJobs:
    """One act on what there is of the container at `address`."""

    yard: ContainerContext
    address: str
    uid: str
    act: Callable[[ContainerStatusWriter, SeenContainer], Awaitable[None]]

    async def __call__(self) -> None:
        """Returns when it is done, or when the status says why it is not."""
        page = ContainerStatusWriter(self.yard, self.address, self.uid)
        found = None if page.resource is None else read_container_status(page.resource.status).seen
        if found is None:
            return
        try:
            await self.act(page, found)
        except EngineFailed as fault:
            await page.write(records.stuck_merge(fault, self.yard.clock.now()))


async def stop_container(page: ContainerStatusWriter, found: SeenContainer) -> None:
    """It has ended, and that we ended it was written first."""
    await page.write(lambda _: {"stopping": found.started_at})
    await page.yard.engine.stop(found.id, limits.CONTAINER_STOP_S)
    await page.look(found.id, {"stuck": None})


async def remove_container(page: ContainerStatusWriter, found: SeenContainer) -> None:
    """It is gone, and so are the networks that were left to it."""
    resource = page.resource
    is_other = resource is not None and found.tag.digest != running_digest(container_from_json(resource.spec))
    counts = ("failures", "tries", "losses") if is_other else ()
    gone: JsonObject = dict.fromkeys(("stuck", *counts))
    await page.yard.engine.remove(found.id)
    await page.look(found.id, gone)  # How often an earlier wish failed says nothing of what is wanted now.
    if left := {page.yard.names.network(network) for network in _left(page)}:
        with suppress(EngineFailed):  # Others may have joined it; who takes down the plan says so.
            for network in left.intersection(await page.yard.networks()):
                await page.yard.engine.remove_network(network)


def _left(page: ContainerStatusWriter) -> set[str]:
    """The networks of this container that no other is on, or about to be."""
    mine: set[str] = set()
    others: set[str] = set()
    for one in page.yard.store.view.list("container"):
        networks = container_networks(container_from_json(one.spec))
        if one.address == page.address:
            mine |= set(networks)
        elif read_container_status(one.status).seen is not None or START in live_jobs(page.yard.work, one.address):
            others |= set(networks)
    return mine - others


async def update_limits(page: ContainerStatusWriter, found: SeenContainer) -> None:
    """Its limits are those of the plan, or the status says that it cannot have them."""
    resource = page.resource
    if resource is None:
        return
    spec = container_from_json(resource.spec)
    wanted, refused = ContainerLimits(spec.cpu, spec.memory_bytes, spec.pids), ""
    try:
        await page.yard.engine.update(found.id, wanted)
    except EngineFailed as fault:
        if fault.reason in HEALS:
            raise
        refused = f"its limits were not changed: {fault}"
    made = await page.look(found.id, {"stuck": None})
    if not refused and made is not None and made.bound != wanted:
        refused = _NOT_HELD
    is_refused: JsonObject = {"bound_of": limits_digest(spec), "bound_why": refused}
    await page.write(lambda _: is_refused if refused else {"bound_of": None, "bound_why": None})
