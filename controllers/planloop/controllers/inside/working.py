"""Commands inside the containers of a plan. Which container that is, the store says; it runs in the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

import anyio

from planloop.containers.engine import Ended, Engine, EngineFailed, Inside, Reason
from planloop.controllers.inside.masking import masks
from planloop.controllers.inside.standing import Standing, standing
from planloop.reconciler.effects.processes import Ending
from planloop.reconciler.storing.store import Store
from planloop.schemas.container import KIND
from planloop.schemas.resource import Resource


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
        """All that is kept of what it wrote, its secrets masked. Raises EngineFailed."""
        ...

    async def run(self, ref: str, inside: Inside) -> Ended:
        """Runs a command to its end, after ending what an earlier owner may have left of it. Raises EngineFailed.

        The container's secrets are masked in what it says.
        """
        ...

    async def end(self, ref: str, mark: str) -> None:
        """Ends what runs under `mark`. Raises EngineFailed."""
        ...


class _InEngine:
    """Commands inside. The engine is made when it is first asked for something."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    async def run(self, ref: str, inside: Inside) -> Ended:
        await self._engine().end(ref, inside.mark)
        quiet = await masks(self._engine(), ref)
        ended = await self._engine().run(ref, inside)
        is_cut = ended.ending is Ending.TOO_MUCH_OUTPUT  # Then half a secret may be at its end.
        return replace(ended, output=quiet.split(ended.output)[0] if is_cut else quiet.mask(ended.output))

    async def end(self, ref: str, mark: str) -> None:
        await self._engine().end(ref, mark)


class PlanContainers(_InEngine):
    """The containers of the plan in `store`, which is being run."""

    def __init__(self, store: Store, engine: Callable[[], Engine]) -> None:
        super().__init__(engine)
        self._store = store

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
            quiet = await masks(self._engine(), found.id)
            async with aclosing(self._engine().logs(found.id, is_following=False)) as pieces:
                return quiet.mask(b"".join([piece async for piece in pieces]))
        except EngineFailed as failed:
            if failed.reason is Reason.NOT_FOUND:
                return b""
            raise


class SeenContainers(_InEngine):
    """The containers `names` of a plan as they stood when it was looked at: whoever asks is kept waiting for none.

    `known` are those that there are. One that is not up would be started by `plan apply`.
    """

    def __init__(self, names: Iterable[str], known: Iterable[Resource], engine: Callable[[], Engine]) -> None:
        super().__init__(engine)
        self._known = {name: Standing(name, "not up", "", why="plan apply starts it") for name in names}
        self._known |= {one.name: one for each in known if (one := standing(each)).is_up}

    def find(self, name: str) -> Standing | None:
        return self._known.get(name)

    async def settled(self, name: str, within_s: float) -> Standing | None:
        del within_s
        return self.find(name)

    async def gone(self, name: str, within_s: float) -> Standing | None:
        del within_s
        return self.find(name)

    async def output(self, found: Standing) -> bytes:
        del found
        return b""
