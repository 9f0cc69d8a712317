"""The `plan` command: finds the verb, imports only it, and turns every ending into an exit code.

Nothing heavy may be imported here: `plan --help` and `plan get` are held to 90 ms of a whole process.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from planloop.app import streams
from planloop.app.exits import Exit, Halt
from planloop.cli.verbs import GROUPS, VERBS
from planloop.schemas import collecting

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Verbs(click.Group):
    """A group whose verbs are imported when they are called, one file each."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"planloop.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            import difflib  # Only for a slip.

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `plan {near[0]}`?" if near else "plan --help lists the verbs"
            raise Halt(Exit.USAGE, f"no verb `{args[0]}`", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=line) for name, line in VERBS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=Verbs, context_settings=CONTEXT, invoke_without_command=True)
@click.option("--version", is_flag=True, help="Print the version and leave.")
@click.pass_context
def cli(ctx: click.Context, version: bool) -> None:
    """Run plans: trees of tasks for agents and commands, steered while they run.

    \b
    plan init                       write a first plan
    plan diff  webchat.plan.yaml    what applying it would do
    plan apply webchat.plan.yaml    run it, and follow the file while you edit it

    `plan VERB --help` shows examples. Exit codes: 0 done, 1 failed or different, 2 usage, 3 invalid plan, 4 conflict,
    5 refused, 6 not found, 8 cancelled, 9 timeout, 10 finished with failed tasks, 70 a bug of ours.
    """
    if version:
        from planloop.cli.version import print_version

        print_version()
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with one of `Exit`."""
    collecting.look_seldom()
    streams.open_closed()
    streams.show_only()
    leave(run(sys.argv[1:] if arguments is None else arguments))


def leave(code: int) -> NoReturn:
    """Ends the process as `sys.exit` does, but for taking apart all that it holds: 30 ms of a short command.

    What was to be done at exit is done, and nothing that was printed is lost. Where a thread is still at work, or the
    output cannot be written, Python ends it in its own way, and says what is wrong.
    """
    collecting.collect_no_more()
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the exit code and lets no exception out."""
    try:
        ended = cli.main(args=list(arguments), prog_name="plan", standalone_mode=False)
    except Halt as end:
        _say(end.text())
        return end.exit
    except (KeyboardInterrupt, click.Abort):
        _say("left; what was running goes on")
        return Exit.CANCELLED
    except click.ClickException as error:
        return _usage(error, arguments)
    except (BrokenPipeError, SystemExit):  # Click makes a SystemExit of a pipe that broke.
        # The reader of our output has gone, as `| head` does: it has what it wanted. Python would complain at exit.
        sys.stderr.close()
        return Exit.DONE
    except Exception as error:
        return _ending_of(error, arguments)
    return ended if isinstance(ended, int) else Exit.DONE  # Of click's own Exit, such as `plan exec` ends with.


def _usage(error: click.ClickException, arguments: Sequence[str]) -> int:
    verb = next((word for word in arguments[:1] if word in VERBS), "")
    context = getattr(error, "ctx", None)  # Of the command that was meant, such as `plan bench run`.
    meant = context.command_path if context is not None else f"plan {verb}"
    hint = f"{meant} --help" if verb else "plan --help"
    parameter = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and parameter is not None and parameter.name == "file":
        from pathlib import Path

        here = sorted(path.name for path in Path.cwd().glob("*.plan.*"))[:3]
        hint = " · ".join(f"plan {verb} {name}" for name in here) or "plan init writes a first plan"
    text = error.format_message()
    _say(f"error: {text[:1].lower()}{text[1:].rstrip('.')}\nhelp: {hint}")
    return Exit.USAGE


def _ending_of(error: Exception, arguments: Sequence[str]) -> int:
    from planloop.app import crash

    known = crash.explained(error)
    if known is not None:
        _say(known.text())
        return known.exit
    _say(crash.report(error, arguments))
    return Exit.BUG


def _say(text: str) -> None:
    if text:
        click.echo(text, err=True)
