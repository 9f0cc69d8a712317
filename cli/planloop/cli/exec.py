"""`plan exec`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click

from planloop.cli.options import client_of_plan, complete_addresses, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.render import printer
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource, conditions_of_status

if TYPE_CHECKING:
    from planloop.containers.engine.engine import FoundContainer

EXAMPLE = """
\b
Examples:
  plan exec container/redis -- redis-cli ping
  plan exec -it container/redis -- sh        a shell at your terminal
  plan exec -i container/db -- psql < dump.sql
"""
NOT_STARTED: Final = 127  # Like shells and docker.
SHELLS: Final = ("sh", "bash", "ash", "/bin/sh", "/bin/bash")


class CommandWords(click.Command):
    """With `--` options may stand on both sides of the name, as for kubectl; without, the first word ends them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = "--" in args
        return super().parse_args(ctx, args)


@click.command(cls=CommandWords, epilog=EXAMPLE)
@click.argument("what", metavar="CONTAINER", shell_complete=complete_addresses("container"))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@plan_option
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input to the command.")
@click.option("-t", "--tty", is_flag=True, help="Allocate a terminal; use -it for a shell.")
@click.option("-u", "--user", default="", metavar="USER", help="The user to run as. Default: the container's user.")
@click.option(
    "-w",
    "--workdir",
    default="",
    metavar="FOLDER",
    help="The working directory in the container. Default: the container's.",
)
def command(
    what: str, words: tuple[str, ...], plan: str | None, stdin: bool, tty: bool, user: str, workdir: str
) -> None:
    """Run a command in a container of the plan.

    The exit code is that of the command, or 127 if the program is not found in the container. With -t, Ctrl-C goes to
    the command; without -t, it ends the command. If `plan exec` is killed, the command and its child processes end too.
    The plan need not be running, but the container must be.
    """
    access = client_of_plan(plan)
    item = access.object(references.resolve_address(what, "container"))
    if item.kind != "container":
        raise CommandError(
            ExitCode.USAGE, f"{item.address} is not a container", "plan get containers lists the containers"
        )
    if not words:
        raise CommandError(ExitCode.USAGE, "no command given", f"plan exec -it {item.address} -- sh")
    access.refuse_insiders()
    is_terminal = tty and sys.stdin.isatty()
    if tty and not is_terminal:
        printer.print_note("note: standard input is not a terminal; -t has no effect")
    _run(access, item, words, ContainerTerminal(stdin or is_terminal, is_terminal), user=user, workdir=workdir)


@frozen
class ContainerTerminal:
    """What of the terminal the command is given."""

    has_input: bool
    is_terminal: bool


def _run(
    access: PlanClient, item: Resource, words: tuple[str, ...], given: ContainerTerminal, *, user: str, workdir: str
) -> NoReturn:
    from planloop.client import process
    from planloop.containers.engine.attach import attach_exec
    from planloop.containers.engine.engine import EngineFailed, ExecCommand

    env = process.environment()
    try:
        found = _found(access, item)
        term = {"TERM": env["TERM"]} if given.is_terminal and "TERM" in env else {}
        inside = ExecCommand(words, f"exec-{os.getpid()}-{item.uid}", env=term, user=user, workdir=workdir)
        with _console(given) as console:
            left = attach_exec(env, found.id, inside, console)
    except EngineFailed as failed:
        raise CommandError(ExitCode.FAILED, f"{item.address}: {failed}", failed.hint) from failed
    except KeyboardInterrupt as told:
        raise click.exceptions.Exit(128 + next(iter(told.args), signal.SIGINT)) from None
    if left.code is None:
        raise _not_started(item, words[0], left.said)
    raise click.exceptions.Exit(left.code)


def _found(access: PlanClient, item: Resource) -> FoundContainer:
    """What the engine has of `item`, which runs. Raises CommandError, EngineFailed."""
    import anyio

    from planloop.client import engine_access

    own = anyio.run(engine_access.engine_containers, access.place, item)
    running = next((one for one in own if one.state == "running"), None)
    if running is not None:
        return running
    if any(one.state == "paused" for one in own):
        raise CommandError(ExitCode.CONFLICT, f"{item.address} is paused", f"docker unpause {own[0].name}")
    ready = conditions_of_status(item.status).get("Ready")
    why = f": {ready.message}" if ready is not None and ready.message else ""
    hints = [f"plan describe {item.address}"]
    hints += [f"plan logs {item.address}"] if own or item.status.get("log") else []
    hints += [] if access.is_owned() else ["plan apply starts it"]
    state = item.state if own or item.state not in ("running", "healthy") else "gone"
    raise CommandError(
        ExitCode.CONFLICT, f"{item.address} is not running: it is {state or 'waiting'}{why}", " · ".join(hints)
    )


def _not_started(item: Resource, word: str, said: str) -> Exception:
    from planloop.client.process import escaped

    if "not found" in said or "no such file" in said:
        printer.print_note(f"error: {item.address} has no program `{word}`")
        other = next((one for one in SHELLS if one != word), "")
        is_shell = word in SHELLS
        hint = f"its image may have another shell, or none: plan exec -it {item.address} -- {other}"
        printer.print_note(f"help: {hint if is_shell else 'name a program that is in its image, or give its path'}")
    else:
        printer.print_note(f"error: {item.address} cannot run `{word}`: {escaped(said)}")
    return click.exceptions.Exit(NOT_STARTED)


class _Own:
    """The terminal, or the pipes, that this process was started with: a `planloop.containers.engine.attach.Console`."""

    def __init__(self, given: ContainerTerminal, resized: int | None) -> None:
        self.input = sys.stdin.fileno() if given.has_input else None
        self.resized = resized

    def size(self) -> tuple[int, int]:
        columns, lines = shutil.get_terminal_size()
        return lines, columns

    def write(self, piece: bytes, *, is_error: bool) -> None:
        descriptor = 2 if is_error else 1
        while piece:
            piece = piece[os.write(descriptor, piece) :]


@contextmanager
def _console(given: ContainerTerminal) -> Iterator[_Own]:
    """The console, put back as it was after; ends of this process that can be caught are exceptions in it."""
    with _caught({signal.SIGTERM: _leave, signal.SIGHUP: _leave}):
        if not given.is_terminal:
            yield _Own(given, None)
            return
        heard, said = os.pipe()
        os.set_blocking(said, False)
        before = termios.tcgetattr(sys.stdin.fileno())

        def tell(number: int, frame: FrameType | None) -> None:
            del number, frame
            with suppress(BlockingIOError):  # It is full of the same.
                os.write(said, b".")

        try:
            tty.setraw(sys.stdin.fileno())
            with _caught({signal.SIGWINCH: tell}):
                yield _Own(given, heard)
        finally:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
            os.close(heard)
            os.close(said)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise KeyboardInterrupt(number)  # While the engine is asked, the event loop keeps other exceptions to itself.


@contextmanager
def _caught(handlers: Mapping[signal.Signals, object]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
