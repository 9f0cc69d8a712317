"""Commands inside the containers of a plan. Which container that is, the store says; it runs in the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final, Protocol

import anyio

from containers.engine import Ended, Engine, EngineFailed, Inside, Reason
from controllers.inside.standing import Standing, standing
from reconciler.storing.store import Store
from schemas.call import CallState
from schemas.container import KIND

EXEC: Final = "container_exec"
_UNSEEN: Final = (CallState.STARTED, CallState.UNKNOWN)


class Containers(Protocol):
    """What a check or a tool needs of the containers of its plan."""

    def find(self, name: str) -> Standing | None:
        """The container as it stands now; None when the plan has no such."""
        ...

    async def settled(self, name: str, within_s: float) -> Standing | None:
        """The same, once it is up or not on its way to that, `within_s` from now at the latest."""
        ...

    async def gone(self, name: str, within_s: float) -> Standing | None:
        """How it stood last before there was no such container any more; None when it is still there after that."""
        ...

    async def output(self, found: Standing) -> bytes:
        """All that is kept of what it wrote. Raises EngineFailed."""
        ...

    async def run(self, ref: str, inside: Inside) -> Ended:
        """Runs a command to its end, after ending what an earlier owner may have left of it. Raises EngineFailed."""
        ...

    async def end(self, ref: str, mark: str) -> None:
        """Ends what runs under `mark`. Raises EngineFailed."""
        ...


class PlanContainers:
    """The containers of the plan in `store`. The engine is made when it is first asked for something."""

    def __init__(self, store: Store, engine: Callable[[], Engine]) -> None:
        self._store = store
        self._engine = engine

    def find(self, name: str) -> Standing | None:
        found = self._store.view.get(f"{KIND}/{name}")
        return None if found is None else standing(found)

    async def settled(self, name: str, within_s: float) -> Standing | None:
        with anyio.move_on_after(within_s):
            records = self._store.watch(self._store.view.rev)
            while (found := self.find(name)) is not None and found.is_on_its_way:
                await anext(records)
        return self.find(name)

    async def gone(self, name: str, within_s: float) -> Standing | None:
        last = self.find(name)
        with anyio.move_on_after(within_s):
            records = self._store.watch(self._store.view.rev)
            while (found := self.find(name)) is not None:
                last = found
                await anext(records)
            return last
        return None

    async def output(self, found: Standing) -> bytes:
        if found.log and not found.is_up:
            return self._store.get_blob(found.log) or b""
        if not found.id:
            return b""
        try:
            async with aclosing(self._engine().logs(found.id, is_following=False)) as pieces:
                return b"".join([piece async for piece in pieces])
        except EngineFailed as failed:
            if failed.reason is Reason.NOT_FOUND:
                return b""
            raise

    async def run(self, ref: str, inside: Inside) -> Ended:
        await self._engine().end(ref, inside.mark)
        return await self._engine().run(ref, inside)

    async def end(self, ref: str, mark: str) -> None:
        await self._engine().end(ref, mark)

    def left(self) -> list[tuple[str, str]]:
        """The container and the mark of each command of which an owner before this one did not see the end."""
        found = []
        for call in self._store.view.list("call"):
            if call.spec.get("tool") == EXEC and call.state in _UNSEEN:
                there = self.find(str(call.spec["arguments"].get("name", "")))
                if there is not None and there.id:
                    found.append((there.id, str(call.spec["op"])))
        return found

    async def end_all(self, left: Sequence[tuple[str, str]]) -> None:
        """Ends those; in a container that has gone they have ended."""
        for ref, mark in left:
            with suppress(EngineFailed):
                await self._engine().end(ref, mark)
