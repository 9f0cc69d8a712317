"""The job that keeps what a container writes, for as long as it runs."""

from __future__ import annotations

from planloop.containers.engine import HEALS, EngineFailed, Reason
from planloop.controllers.container.deciding import backoff_s
from planloop.controllers.container.status import read
from planloop.controllers.container.writing import Page
from planloop.controllers.container.yard import Yard
from planloop.controllers.inside import masks
from planloop.schemas import limits
from planloop.schemas.container import container_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen


@frozen
class Following:
    """Keeps what the container at `address` writes in its present run."""

    yard: Yard
    address: str
    uid: str

    async def __call__(self) -> None:
        """Returns when the run is over and its output is kept whole, as far as it is to be had."""
        page = Page(self.yard, self.address, self.uid)
        resource = page.resource
        status = None if resource is None else read(resource.status)
        if resource is None or status is None or status.seen is None:
            return
        found, after = status.seen, max(0.0, status.counted)  # What is quick writes before engines say that it started.
        spec = container_from_json(resource.spec)
        output = self.yard.output(self.address, spec.logs_bytes)
        failures = 0
        while True:
            output.clear()
            try:
                quiet = (await masks(self.yard.engine, found.id)).stream()
                async for piece in self.yard.engine.logs(found.id, after=after):
                    output.add(quiet.feed(piece))
                output.add(quiet.flush())
                break
            except EngineFailed as fault:
                if fault.reason not in HEALS:
                    if fault.reason is not Reason.NOT_FOUND:
                        output.add(f"--- its output is not to be had: {fault}\n".encode())
                    break
            failures += 1
            await self.yard.clock.sleep(backoff_s(failures))
        written = output.read()
        blob = self.yard.store.put_blob(written) if written else None
        last = written[-limits.CONTAINER_LAST_CHARS :].decode(errors="replace")
        done: JsonObject = {"logged": found.started_at, "log": blob, "last": last or None}
        await page.write(lambda _: done)
