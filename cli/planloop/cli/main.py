"""The `plan` command: find the verb, import only its module, and end with an exit code."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

import click
from click.shell_completion import CompletionItem

from planloop.client import VERSION, process
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import gc_control

# Every verb with its one line, so that `plan --help` and completion import none of them.
#
# A test holds each line equal to the first line of the verb's own help. The order is that of a first day's use.

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Write a plan": {
        "init": "Write a commented plan, the editor schema and a library folder.",
        "validate": "Say what is wrong with a plan file.",
        "compile": "Print the canonical plan, the graph it compiles to, or its containers for Compose.",
        "graph": "Draw the tasks and containers and what they need.",
        "explain": "Explain a field, an error code, or who set a value and why.",
        "schema": "Print the JSON Schema that editors complete and check with.",
    },
    "Run it": {
        "diff": "Show what applying a plan file would do.",
        "apply": "Make what runs follow the plan file, and watch both.",
        "wait": "Wait until tasks are done, failed or show a condition.",
        "down": "Stop the process that runs a plan.",
    },
    "Look at it": {
        "get": "List objects.",
        "describe": "Show one object: its conditions, why it waits, what would unblock it.",
        "tree": "Show the tree of tasks with their states.",
        "top": "Show agents at work: turns, calls, tokens and cost, the most first.",
        "events": "Show the log.",
        "logs": "Show outputs of commands and containers, and transcripts of agents.",
        "exec": "Run a command in a container of the plan.",
        "history": "List the plan's revisions with author and cause.",
        "serve": "Show a plan in the browser, and serve its API.",
        "mcp": "Let programs from outside work on tasks of a plan, over MCP.",
    },
    "Change it while it runs": {
        "patch": "Change fields of the live plan.",
        "edit": "Open the live plan in your editor.",
        "pull": "Write the live plan back into the file.",
        "approve": "Let something go on that waits for a person.",
        "reject": "Turn down something that waits for a person.",
        "unlock": "Take a lock from whoever holds it.",
        "pause": "Stop a subtree at its next boundary and keep its work.",
        "resume": "Let a paused subtree go on, and what failed in it try once more.",
        "cancel": "Stop a subtree for good and keep it as cancelled.",
        "delete": "Remove a subtree or a container from the live plan.",
        "send": "Send a message to an agent, or to several.",
        "chat": "Talk with an agent of a running plan.",
        "rollback": "Go back to an earlier revision, as a new one.",
        "fork": "Make a copy of the plan that goes on from a revision.",
    },
    "Measure agents": {
        "bench": "Measure agents with suites of cases, and compare them.",
    },
    "Keep it healthy": {
        "replay": "Fold the log again and compare.",
        "doctor": "Say what is missing on this machine and how to get it.",
        "image": "Make the images that plans may name without a registry, and list them.",
        "completion": "Print the shell completion script.",
        "version": "Print the version.",
    },
}

VERBS: Final[dict[str, str]] = {name: line for group in GROUPS.values() for name, line in group.items()}


MODULES: Final[dict[str, str]] = {
    **dict.fromkeys(("pause", "resume", "cancel", "delete", "unlock"), "control"),
    **dict.fromkeys(("describe", "tree"), "get"),
    **dict.fromkeys(("events", "replay"), "history"),
    **dict.fromkeys(("validate", "graph"), "compile"),
    "pull": "diff",
    "reject": "approve",
    "rollback": "patch",
    "schema": "completion",
    "send": "chat",
    "version": "main",
}
"""The modules of verbs that share one with another verb. Every other verb has the module of its name."""


VERSION_EXAMPLE = """
\b
Example:
  plan version
"""


def print_version() -> None:
    """One line: the product and its version."""
    click.echo(f"planloop {VERSION}")


@click.command(epilog=VERSION_EXAMPLE)
def version_command() -> None:
    """Print the version."""
    print_version()


# The `plan` command: finds the verb, imports only it, and turns every ending into an exit code.
#
# Nothing heavy may be imported here: `plan --help` and `plan get` are held to 90 ms of a whole process.

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class VerbGroup(click.Group):
    """A group whose verbs are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"planloop.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command", None) or module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            import difflib  # Only for a slip.

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `plan {near[0]}`?" if near else "plan --help lists the verbs"
            raise CommandError(ExitCode.USAGE, f"no verb `{args[0]}`", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=line) for name, line in VERBS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=VerbGroup, context_settings=CONTEXT_SETTINGS, invoke_without_command=True)
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
        print_version()
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with one of `ExitCode`."""
    gc_control.collect_rarely()
    process.open_closed_streams()
    process.escape_control_characters()
    exit_process(run_command_line(sys.argv[1:] if arguments is None else arguments))


def exit_process(code: int) -> NoReturn:
    """Ends the process as `sys.exit` does, but for taking apart all that it holds: 30 ms of a short command.

    What was to be done at exit is done, and nothing that was printed is lost. Where a thread is still at work, or the
    output cannot be written, Python ends it in its own way, and says what is wrong.
    """
    gc_control.disable_gc_until_exit()
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def run_command_line(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the exit code and lets no exception out."""
    try:
        ended = cli.main(args=list(arguments), prog_name="plan", standalone_mode=False)
    except CommandError as end:
        _say(end.text())
        return end.exit
    except (KeyboardInterrupt, click.Abort):
        _say("left; what was running goes on")
        return ExitCode.CANCELLED
    except click.ClickException as error:
        return _usage(error, arguments)
    except (BrokenPipeError, SystemExit):  # Click makes a SystemExit of a pipe that broke.
        # The reader of our output has gone, as `| head` does: it has what it wanted. Python would complain at exit.
        sys.stderr.close()
        return ExitCode.DONE
    except Exception as error:
        return _ending_of(error, arguments)
    return ended if isinstance(ended, int) else ExitCode.DONE  # Of click's own Exit, such as `plan exec` ends with.


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
    return ExitCode.USAGE


def _ending_of(error: Exception, arguments: Sequence[str]) -> int:
    from planloop.client import error_report

    known = error_report.explain_exception(error)
    if known is not None:
        _say(known.text())
        return known.exit
    _say(error_report.bug_report(error, arguments))
    return ExitCode.BUG


def _say(text: str) -> None:
    if text:
        click.echo(text, err=True)
