"""`plan mcp` put together: the replica that follows the log, the identities, and the door that is asked for."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from planloop.app.access import Access
from planloop.app.places import Place
from planloop.reconciler.clock import RandomIds
from planloop.schemas.frozen import frozen
from planloop.server.gateway import guarding
from planloop.server.gateway.replica import Replica
from planloop.server.gateway.transport import context_of
from planloop.server.mcp import client_config, identity, tokens
from planloop.server.mcp.doors import PATH, HttpDoor, over_http, over_stdio
from planloop.server.mcp.following import Following
from planloop.server.mcp.seats import AT_ONCE, House
from planloop.server.mcp.speaking import Speaking

TOKEN_BYTES: Final = 32
AT_TERMINAL: Final = (
    "{plan} as {name}: waits for an MCP client on standard input; clients start this themselves, or come by plan mcp "
    "--http\nCtrl-C ends this; the plan goes on\n"
)


@frozen
class Wish:
    """How `plan mcp` was asked to speak over HTTP: `names` beside the address, the files of TLS, new tokens."""

    names: tuple[str, ...] = ()
    tls: tuple[Path | None, Path | None] = (None, None)
    new_tokens: bool = False


def configure(place: Place, wanted: Sequence[str], client: str) -> None:
    """Prints what `client` needs to start `plan mcp` as the only identity in `wanted`. Raises Halt."""

    async def run() -> str:
        async with _house(place) as (house, _):
            return identity.the_one(house.log, wanted)

    made = client_config.snippet(client, place.name, [*_started(place), "--as", anyio.run(run)])
    sys.stderr.write("".join(f"{line}\n" for line in (f"save in {made.file}, or merge into it:", *made.notes)))
    sys.stderr.flush()
    sys.stdout.write(made.text)


def _started(place: Place) -> list[str]:
    """How `plan mcp` is started from any folder, and with any PATH: editors have another one than shells."""
    beside = Path(sys.executable).with_name("plan")
    program = [str(beside)] if beside.is_file() else [sys.executable, "-m", "planloop"]
    if place.file is not None:
        return [*program, "mcp", "--plan", str(place.file.absolute())]
    return ["sh", "-c", 'cd "$0" && exec "$@"', str(place.root.absolute()), *program, "mcp", "--plan", place.name]


def speak(place: Place, wanted: Sequence[str]) -> None:
    """Speaks over standard input and output as the only identity in `wanted`, until the input ends. Raises Halt."""

    async def run() -> None:
        async with _house(place) as (house, _):
            name = identity.the_one(house.log, wanted)
            if sys.stdin.isatty():
                sys.stderr.write(AT_TERMINAL.format(plan=place.name, name=name))
            await over_stdio(Speaking(house, place.name, name, is_http=False))

    anyio.run(run)


def listen(place: Place, wanted: Sequence[str], listener: socket.socket, wish: Wish) -> None:
    """Speaks over HTTP on `listener` as each identity in `wanted`, until Ctrl-C. Raises Halt."""
    secure = context_of(*wish.tls)
    scheme: guarding.Scheme = "https" if secure else "http"
    address, port = listener.getsockname()[:2]
    site = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}{PATH}"
    names = guarding.names_of(scheme, port, [*wish.names, "localhost"])

    async def run() -> None:
        async with _house(place) as (house, replica):
            chosen = identity.chosen(house.log, wanted)
            mint = partial(secrets.token_urlsafe, TOKEN_BYTES)
            made = tokens.kept(place.folder, chosen, mint, anew=wish.new_tokens)
            doors = {name: (made[name], Speaking(house, place.name, name, is_http=True)) for name in chosen}
            for name in chosen:
                sys.stdout.write(f"{place.name} as {name}  {site}  Authorization: Bearer {made[name]}\n")
            sys.stdout.write("Ctrl-C ends this; the plan goes on\n")
            sys.stdout.flush()
            files = tuple(None if one is None else str(one) for one in wish.tls)
            door = HttpDoor(names, doors)

            def look(moved: set[str]) -> None:
                if not moved or tokens.FILE in moved:
                    door.renew(tokens.known(place.folder))

            replica.on_move(look)
            await over_http(door, listener, files)

    anyio.run(run)


@asynccontextmanager
async def _house(place: Place) -> AsyncIterator[tuple[House, Replica]]:
    replica, following = Replica(place), Following()
    await replica.load()
    replica.require()
    replica.on_record(following.heard)
    house = House(Access(place), replica, following, RandomIds().mint, anyio.CapacityLimiter(AT_ONCE))
    async with anyio.create_task_group() as group:
        group.start_soon(replica.run)
        try:
            yield house, replica
        finally:
            group.cancel_scope.cancel()
