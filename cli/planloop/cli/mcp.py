"""`plan mcp`."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import click
from click.core import ParameterSource

from planloop.cli.options import paths_of_plan, plan_option
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.server.mcp.client_config import CLIENTS

EXAMPLE = """
\b
Examples:
  plan mcp --as helper                         over standard input and output, started by the client
  plan mcp --as helper --plan webchat.plan.yaml
  plan mcp --as helper --print-config claude > .mcp.json
  plan mcp --http --as helper --as reviewer    streamable HTTP on this machine, one token per agent
  plan mcp --http --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
"""
PORT = 7078
FOR_HTTP = frozenset({"port", "host", "hosts", "tls_cert", "tls_key", "insecure", "new_tokens"})


@click.command(epilog=EXAMPLE)
@plan_option
@click.option(
    "--as",
    "names",
    multiple=True,
    metavar="NAME",
    help="The agent in the plan that the client plays. Repeatable with --http.",
)
@click.option("--http", is_flag=True, help="Use streamable HTTP instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The port; 0 picks a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--name", "hosts", multiple=True, metavar="HOST", help="Another host name of this machine. Repeatable.")
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="The TLS certificate, as PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="The key of the certificate, as PEM.")
@click.option(
    "--insecure", is_flag=True, help="Listen on another address without TLS: others on the network can read tokens."
)
@click.option("--new-tokens", is_flag=True, help="Create new tokens for these names; the old tokens stop working.")
@click.option(
    "--print-config",
    "client",
    type=click.Choice(CLIENTS),
    metavar="CLIENT",
    help=f"Print the configuration for a client that starts the server: {', '.join(CLIENTS)}.",
)
def command(
    plan: str | None,
    names: tuple[str, ...],
    client: str | None,
    http: bool,
    port: int,
    host: str,
    hosts: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    new_tokens: bool,
) -> None:
    """Let MCP clients work on tasks of a plan.

    An MCP client can take a task whose agent has `outside: true`, and works with that agent's tools, rights and budget.
    The plan keeps running when this command ends.
    """
    if not http:
        _refuse_for_http()
    elif client is not None:
        raise CommandError(
            ExitCode.USAGE,
            "--print-config cannot be combined with --http",
            "omit --http: the client starts the server itself",
        )
    place = paths_of_plan(plan)
    PlanClient(place).refuse_insiders()  # Tokens of other agents are printed.
    if not http:
        if len(names) > 1:
            raise CommandError(
                ExitCode.USAGE, "standard input and output serve one client only", "give --as once, or use --http"
            )
        from planloop.server.mcp import bootstrap

        if client is not None:
            bootstrap.print_config(place, names, client)
        else:
            bootstrap.run_stdio(place, names)
        return
    address = _address(host)
    if not (ipaddress.ip_address(address).is_loopback or tls_cert or insecure):
        hint = "give --tls-cert and --tls-key, or --insecure on a trusted network"
        raise CommandError(ExitCode.USAGE, f"other machines can reach {host}, and TLS is not configured", hint)
    listener = _listen(address, port)
    from planloop.server.mcp import bootstrap

    names_of_host = hosts if hosts or host == address else (host,)
    bootstrap.run_http(place, names, listener, bootstrap.McpOptions(names_of_host, (tls_cert, tls_key), new_tokens))


def _refuse_for_http() -> None:
    """Raises CommandError for what was given and means nothing over standard input: a new token, or TLS, would be
    missed.
    """
    context = click.get_current_context()
    options = [one for one in context.command.params if one.name in FOR_HTTP]
    given = [one for one in options if context.get_parameter_source(str(one.name)) is not ParameterSource.DEFAULT]
    if given:
        words = " and ".join(one.opts[0] for one in given)
        raise CommandError(
            ExitCode.USAGE, f"without --http, {words} would have no effect", "add --http, or omit the option"
        )


def _address(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        hint = "give an address of this machine, or a name that resolves to one"
        raise CommandError(ExitCode.USAGE, f"--host {host} does not resolve to an address", hint) from None
    return str(found[0][4][0]).partition("%")[0]


def _listen(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as error:
        hint = "choose another port with --port, or --port 0 for a free one"
        raise CommandError(ExitCode.FAILED, f"cannot listen on {address} port {port}: {error.strerror}", hint) from None
