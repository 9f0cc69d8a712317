"""Assemble `plan mcp`: replica, identities, tokens and transport."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from planloop.client.plan_client import PlanClient
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.clock import RandomIds
from planloop.schemas.frozen import frozen
from planloop.server.gateway import auth
from planloop.server.gateway.auth import tls_context
from planloop.server.gateway.replica import PlanReplica
from planloop.server.mcp import client_config, leases
from planloop.server.mcp.call_tracker import CallTracker
from planloop.server.mcp.leases import AT_ONCE, McpContext
from planloop.server.mcp.server import IdentityServer
from planloop.server.mcp.transports import PATH, HttpTransport, serve_http, serve_stdio

FILE: Final = "guests.json"  # In the plan's state folder: the token of each identity over HTTP.


def load_identity_tokens(
    folder: Path, names: Sequence[str], mint: Callable[[], str], *, is_new: bool = False
) -> Mapping[str, str]:
    """The token of each of `names`; a missing one, or all with `is_new`, is made and kept. Raises OSError."""
    there = auth.read_tokens(folder / FILE)
    tokens = {name: there.get(name, "") if not is_new else "" for name in names}
    made = {name: token or mint() for name, token in tokens.items()}
    if made != tokens:
        auth.write_tokens(folder / FILE, {**there, **made}, mint()[:8]).replace(folder / FILE)
    return made


TOKEN_BYTES: Final = 32
AT_TERMINAL: Final = (
    "{plan} as {name}: waits for an MCP client on standard input; clients start this themselves, or come by plan mcp "
    "--http\nCtrl-C ends this; the plan goes on\n"
)


@frozen
class McpOptions:
    """How `plan mcp` was asked to speak over HTTP: `names` beside the address, the files of TLS, new tokens."""

    names: tuple[str, ...] = ()
    tls: tuple[Path | None, Path | None] = (None, None)
    new_tokens: bool = False


def print_config(place: PlanPaths, wanted: Sequence[str], client: str) -> None:
    """Prints what `client` needs to start `plan mcp` as the only identity in `wanted`. Raises CommandError."""

    async def run() -> str:
        async with _context(place) as (context, _):
            return leases.require_single_identity(context.log, wanted)

    made = client_config.config_snippet(client, place.name, [*_started(place), "--as", anyio.run(run)])
    sys.stderr.write("".join(f"{line}\n" for line in (f"save in {made.file}, or merge into it:", *made.notes)))
    sys.stderr.flush()
    sys.stdout.write(made.text)


def _started(place: PlanPaths) -> list[str]:
    """How `plan mcp` is started from any folder, and with any PATH: editors have another one than shells."""
    beside = Path(sys.executable).with_name("plan")
    program = [str(beside)] if beside.is_file() else [sys.executable, "-m", "planloop"]
    if place.file is not None:
        return [*program, "mcp", "--plan", str(place.file.absolute())]
    return ["sh", "-c", 'cd "$0" && exec "$@"', str(place.root.absolute()), *program, "mcp", "--plan", place.name]


def run_stdio(place: PlanPaths, wanted: Sequence[str]) -> None:
    """Speaks over standard input and output as the only identity in `wanted`, until the input ends. Raises
    CommandError.
    """

    async def run() -> None:
        async with _context(place) as (context, _):
            name = leases.require_single_identity(context.log, wanted)
            if sys.stdin.isatty():
                sys.stderr.write(AT_TERMINAL.format(plan=place.name, name=name))
            await serve_stdio(IdentityServer(context, place.name, name, is_http=False))

    anyio.run(run)


def run_http(place: PlanPaths, wanted: Sequence[str], listener: socket.socket, options: McpOptions) -> None:
    """Speaks over HTTP on `listener` as each identity in `wanted`, until Ctrl-C. Raises CommandError."""
    secure = tls_context(*options.tls)
    scheme: auth.Scheme = "https" if secure else "http"
    address, port = listener.getsockname()[:2]
    site = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}{PATH}"
    names = auth.site_names(scheme, port, [*options.names, "localhost"])

    async def run() -> None:
        async with _context(place) as (context, replica):
            chosen = leases.choose_identities(context.log, wanted)
            mint = partial(secrets.token_urlsafe, TOKEN_BYTES)
            made = load_identity_tokens(place.folder, chosen, mint, is_new=options.new_tokens)
            served = {name: (made[name], IdentityServer(context, place.name, name, is_http=True)) for name in chosen}
            for name in chosen:
                sys.stdout.write(f"{place.name} as {name}  {site}  Authorization: Bearer {made[name]}\n")
            sys.stdout.write("Ctrl-C ends this; the plan goes on\n")
            sys.stdout.flush()
            transport = HttpTransport(names, served)

            def look(moved: set[str]) -> None:
                if not moved or FILE in moved:
                    transport.renew(auth.read_tokens(place.folder / FILE))

            replica.on_move(look)
            await serve_http(transport, listener, secure)

    anyio.run(run)


@asynccontextmanager
async def _context(place: PlanPaths) -> AsyncIterator[tuple[McpContext, PlanReplica]]:
    replica, tracker = PlanReplica(place), CallTracker()
    await replica.load()
    replica.require()
    replica.on_record(tracker.note)
    context = McpContext(PlanClient(place), replica, tracker, RandomIds().mint, anyio.CapacityLimiter(AT_ONCE))
    async with anyio.create_task_group() as group:
        group.start_soon(replica.run)
        try:
            yield context, replica
        finally:
            group.cancel_scope.cancel()
