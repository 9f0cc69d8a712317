"""The jobs that last as long as a container runs: what it writes is kept, and its health is asked for."""

from __future__ import annotations

from typing import Final

import aiohttp
import anyio

from containers.engine import Ending, EngineFailed, Inside, Reason
from controllers.container import writing
from controllers.container.status import Probed, Seen, read
from controllers.container.yard import Yard
from schemas import limits
from schemas.container import Health, container_from_json
from schemas.frozen import frozen

_AGAIN_S: Final = 1.0  # After the engine broke off in the middle of a log.
PROBE_MARK: Final = "health"


@frozen
class Following:
    """Keeps what the container at `address` writes in the run that began at `started_at`."""

    yard: Yard
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when the run is over and its output is kept whole."""
        resource = self.yard.store.view.get(self.address)
        found = None if resource is None else read(resource.status).seen
        if resource is None or found is None:
            return
        output = self.yard.output(self.address, container_from_json(resource.spec).logs_bytes)
        output.clear()
        while True:
            try:
                async for piece in self.yard.engine.logs(found.id, after=found.started_at):
                    output.add(piece)
                break
            except EngineFailed as fault:
                if fault.reason is Reason.NOT_FOUND:
                    break
                await self.yard.clock.sleep(_AGAIN_S)
                output.clear()
        written = output.read()
        blob = self.yard.store.put_blob(written) if written else None
        last = written[-limits.CONTAINER_LAST_CHARS :].decode(errors="replace")
        done = {"logged": found.started_at, "log": blob, "last": last or None}
        await writing.write(self.yard.store, self.address, self.uid, lambda _: done)


@frozen
class Probing:
    """Asks for the health of the container at `address` as long as it runs, and writes when that changes."""

    yard: Yard
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when it does not run any more."""
        failures, began = 0, self.yard.clock.now()
        while True:
            resource = self.yard.store.view.get(self.address)
            found = None if resource is None or resource.uid != self.uid else read(resource.status).seen
            if resource is None or found is None or found.run != "running":
                return
            health = container_from_json(resource.spec).health
            if health is None:
                return
            fault = await self._fault(health, found)
            failures = 0 if fault is None else failures + 1
            is_early = self.yard.clock.now() - max(began, found.started_at) < health.start_period_s
            if fault is None or (failures >= health.retries and not is_early):
                probed = Probed(found.started_at, fault is None, fault or "")
                await self._write(probed)
            await self.yard.clock.sleep(health.interval_s)

    async def _write(self, probed: Probed) -> None:
        merge = {"started_at": probed.started_at, "is_well": probed.is_well, "said": probed.said}
        await writing.write(self.yard.store, self.address, self.uid, lambda _: {"probed": merge})

    async def _fault(self, health: Health, found: Seen) -> str | None:
        """What is wrong with it; None when it is well."""
        try:
            with anyio.fail_after(health.timeout_s):
                if health.cmd:
                    return await self._inside(health, found)
                return await (_connects if health.tcp else _answers)(health, found)
        except TimeoutError:
            return f"no answer within {health.timeout_s:g} s"
        except EngineFailed as fault:
            return str(fault)

    async def _inside(self, health: Health, found: Seen) -> str | None:
        ended = await self.yard.engine.run(found.id, Inside(health.cmd, f"{PROBE_MARK}-{self.uid}"))
        if ended.ending is Ending.EXITED and ended.code == 0:
            return None
        said = ended.output[-200:].decode(errors="replace").strip().rpartition("\n")[2]
        how = f"exit code {ended.code}" if ended.ending is Ending.EXITED else ended.ending.value
        return f"{how}: {said}" if said else how


def _host(found: Seen) -> str:
    return next((address for _, address in found.addresses if address), "127.0.0.1")


async def _connects(health: Health, found: Seen) -> str | None:
    try:
        stream = await anyio.connect_tcp(_host(found), health.tcp)
    except OSError as error:
        return f"port {health.tcp}: {error.strerror or error}"
    await stream.aclose()
    return None


async def _answers(health: Health, found: Seen) -> str | None:
    url = _seen_from_here(health.http, _host(found))
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return None if answer.status < 400 else f"{health.http}: status {answer.status}"
    except (aiohttp.ClientError, OSError) as error:
        return f"{health.http}: {error}"


def _seen_from_here(url: str, host: str) -> str:
    """`url` as it is written for the inside, with the container's own address in place of its loopback."""
    if url.startswith(":"):
        return f"http://{host}{url}"
    for inside in ("localhost", "127.0.0.1", "[::1]"):
        head, found, rest = url.partition(f"://{inside}")
        if found:
            return f"{head}://{host}{rest}"
    return url
