"""One try of a conversation: fresh clients, every step in turn, in one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, assert_never

import anyio

from planloop.controllers.task.checking.transcript import Transcript
from planloop.controllers.task.checking.ws.client import Client, Refused
from planloop.controllers.task.checking.ws.ways import Way
from planloop.schemas import limits
from planloop.schemas.encoding import encode_text
from planloop.schemas.frozen import mutable
from planloop.schemas.matchers import BadPattern
from planloop.schemas.ws_check import Act, Connect, Drop, Hear, HearNot, Say, Stay

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_LATE: Final = "in the time of the check"


@mutable
class Try:
    """What came of one way: `held` steps in a row, and `words` for the first that did not; empty: all did.

    A conversation that is cut short has words for where it was. `is_open`: the clients could connect. `is_unreachable`:
    nothing listens at all. `is_bad`: a pattern cannot be asked.
    """

    way: Way
    held: int = 0
    words: str = "not tried"
    probes: int = 0
    is_open: bool = False
    is_unreachable: bool = False
    is_bad: bool = False


async def converse(base: str, found: Try, clients: Sequence[str], acts: Sequence[Act], notes: Transcript) -> None:
    """Has the conversation at the program `base`, in the way of `found`, which is told what comes of it."""
    talk = _Talk(base, found.way, found, notes)
    notes.add(f"-- {found.way.words}")
    async with anyio.create_task_group() as group:
        try:
            await talk.have(clients, acts, group)
        finally:
            with anyio.CancelScope(shield=True):
                await talk.end()
            group.cancel_scope.cancel()


@mutable
class _Talk:
    """One conversation that goes on."""

    base: str
    way: Way
    found: Try
    notes: Transcript
    present: dict[str, Client] = field(default_factory=dict)

    async def have(self, clients: Sequence[str], acts: Sequence[Act], group: TaskGroup) -> None:
        self.found.words = f"{self.way.path} opens no websocket {_LATE}"
        try:
            for name in clients:
                await self._join(name, group)
        except Refused as refused:
            self.found.is_unreachable = refused.is_unreachable
            self.found.words = f"{self.way.path} {refused.words}"
            return
        self.found.is_open = True
        self.found.words = f"no step is done {_LATE}"
        # Some servers take a client in only after they have answered it.
        await anyio.sleep(limits.SOCKET_SETTLE_S)
        for number, act in enumerate(acts, start=1):
            self.found.words = f"step {number}: {_wish(act)}, which is not done {_LATE}"
            try:
                words = await self._do(act, group)
            except BadPattern as error:
                words, self.found.is_bad = str(error), True
            if words:
                self.found.words = f"step {number}: {words}"
                return
            self.found.held = number
        self.found.words = ""

    async def _join(self, name: str, group: TaskGroup) -> None:
        client = self.present[name] = Client(name, self.notes)
        url = f"{self.base.replace('http', 'ws', 1)}{self.way.path}"
        self.found.probes += 1  # Before it is answered: who is kept waiting has looked.
        try:
            await client.connect(url, self.base)
        except Refused as refused:
            self.found.probes -= refused.is_unreachable
            raise
        group.start_soon(client.listen)
        for frame in self.way.shape.greetings(name):
            await client.say(frame)

    async def _do(self, act: Act, group: TaskGroup) -> str:
        """Does a step; why it does not hold, empty when it does."""
        client = self.present[act.client]
        match act:
            case Say():
                return await client.say(self.way.shape.put(act.text))
            case Hear():
                self.found.probes += 1
                is_heard = await client.hears(act.pattern, act.within_s)
                return "" if is_heard else _deaf(client, act)
            case HearNot():
                self.found.probes += 1
                is_heard = await client.hears(act.pattern, act.for_s)
                return f"{act.client} hears {encode_text(act.pattern)}" if is_heard else ""
            case Stay():
                self.found.probes += 1
                return "" if await client.stays(act.for_s) else client.why_closed
            case Drop():
                await client.drop()
                return ""
            case Connect():
                return await self._again(act.client, group)
            case _:
                assert_never(act)

    async def _again(self, name: str, group: TaskGroup) -> str:
        await self.present[name].leave()
        try:
            await self._join(name, group)
        except Refused as refused:
            return f"{name} cannot connect again: {self.way.path} {refused.words}"
        await anyio.sleep(limits.SOCKET_SETTLE_S)
        return ""

    async def end(self) -> None:
        async with anyio.create_task_group() as leaving:
            for client in self.present.values():
                leaving.start_soon(client.leave)


def _wish(act: Act) -> str:
    """What a step waits for."""
    match act:
        case Say():
            return f"{act.client} says {encode_text(act.text[: limits.VALUE_SHOWN_CHARS])}"
        case Hear():
            return f"{act.client} hears {encode_text(act.pattern)}"
        case HearNot():
            return f"{act.client} does not hear {encode_text(act.pattern)} for {act.for_s:g} s"
        case Stay():
            return f"{act.client} stays connected for {act.for_s:g} s"
        case Drop():
            return f"{act.client} is dropped"
        case Connect():
            return f"{act.client} connects again"
        case _:
            assert_never(act)


def _deaf(client: Client, act: Hear) -> str:
    """The reason why a client did not hear a frame. It names the time only if all of it has passed."""
    words = f"{act.client} does not hear {encode_text(act.pattern)}"
    if client.why_closed:
        return f"{words}: {client.why_closed}"
    words = f"{words} within {act.within_s:g} s"
    if not client.heard:
        return f"{words}, nor anything else"
    last = f"the last that it heard is {encode_text(client.heard[-1][: limits.VALUE_SHOWN_CHARS])}"
    return f"{words}; {last}, for an earlier step" if len(client.heard) - 1 in client.told else f"{words}; {last}"
