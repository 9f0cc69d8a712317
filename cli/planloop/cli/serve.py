"""`plan serve`."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

import click

from planloop.cli.options import paths_of_plan, plan_option
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.plan_paths import PlanPaths

EXAMPLE = """
\b
Examples:
  plan serve                                   serve this folder's plan on this machine
  plan serve --plan webchat --port 7100
  plan serve --read-only                       print a read-only link
  plan serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  plan serve --reports ../reports              also serve the benchmark runs in a folder
  plan serve --name https://plan.example.org   behind a proxy with this name and TLS
"""
PORT = 7077
REPORTS = "reports"


@click.command(epilog=EXAMPLE)
@plan_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The port; 0 picks a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--name", multiple=True, metavar="NAME", help="The name that browsers use: HOST, HOST:PORT or https://HOST."
)
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="The TLS certificate, as PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="The key of the certificate, as PEM.")
@click.option(
    "--insecure", is_flag=True, help="Listen on another address without TLS: others on the network can read tokens."
)
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option("--new-links", is_flag=True, help="Create new tokens: all earlier links stop working.")
@click.option("--reports", type=click.Path(path_type=Path, file_okay=False), help="The folder with benchmark runs.")
@click.option(
    "--page", type=click.Path(path_type=Path, file_okay=False), help="Serve the web page from this build folder."
)
def command(
    plan: str | None,
    port: int,
    host: str,
    name: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    read_only: bool,
    new_links: bool,
    reports: Path | None,
    page: Path | None,
) -> None:
    """Serve the web page and the API of a plan.

    The command prints two links with a token: one allows changes, one only reading. The plan need not be running, and
    keeps running when this command ends. Benchmark runs are shown too: those in `reports` next to the plan, or in the
    folder that you give. A folder with benchmark runs only needs no plan.
    """
    from planloop.server.gateway import application
    from planloop.server.gateway.bench_routes import ReportFolders

    place, shelves = _place(plan, reports)
    PlanClient(place).refuse_insiders()  # The links that are printed open what a person serves, too.
    found = _found(host, port)
    if not (ipaddress.ip_address(found.address).is_loopback or tls_cert or insecure):
        hint = "give --tls-cert and --tls-key, or --insecure on a trusted network"
        raise CommandError(ExitCode.USAGE, f"other machines can reach {host}, and TLS is not configured", hint)
    # What was asked for is what the link says, where it is a name.
    names = name if name or host == found.address or _is_address(host) else (host,)
    options = application.GatewayOptions(
        names, (tls_cert, tls_key), read_only, new_links, page, ReportFolders(*shelves)
    )
    application.serve(place, _listen(found), options)


def _place(plan: str | None, reports: Path | None) -> tuple[PlanPaths, tuple[Path, Path]]:
    """The plan, and where suites and runs are. Without a plan where there are reports: the place of none."""
    here = Path.cwd()
    try:
        place = paths_of_plan(plan)
    except CommandError as halt:
        kept = here / (reports or REPORTS)
        if plan is not None or halt.exit is not ExitCode.NOT_FOUND or not kept.is_dir():
            raise
        return PlanPaths("", kept), (here, kept)
    return place, (place.root, place.root / REPORTS if reports is None else here / reports)


@dataclass(frozen=True, slots=True)
class ServeAddress:
    """Where `--host` and `--port` say: an address of this machine."""

    family: socket.AddressFamily
    address: str
    port: int


def _found(host: str, port: int) -> ServeAddress:
    try:
        family, _, _, _, where = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        hint = "give an address of this machine, or a name that resolves to one"
        raise CommandError(ExitCode.USAGE, f"--host {host} does not resolve to an address", hint) from None
    return ServeAddress(family, str(where[0]).partition("%")[0], port)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _listen(found: ServeAddress) -> socket.socket:
    try:
        return socket.create_server((found.address, found.port), family=found.family)
    except OSError as error:
        raise CommandError(
            ExitCode.FAILED, f"cannot listen on {_shown(found)}: {error.strerror}", _cure(error)
        ) from None


def _shown(found: ServeAddress) -> str:
    return f"{found.address} port {found.port}"


def _cure(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another program uses this port, perhaps another plan serve: --port 0 picks a free one"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have this address: --host 0.0.0.0 listens on all addresses"
        case errno.EACCES | errno.EPERM:
            return "ports below 1024 require root: choose a higher one with --port"
        case _:
            return "choose another address with --host and --port"
