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

# Every verb with its summary, so that `plan --help` and completion import none of the verbs.
#
# A test compares each summary with the first line of the verb's own help.

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Write a plan": {
        "init": "Write a commented plan, the editor schema and a library folder.",
        "validate": "Check a plan file for errors.",
        "compile": "Print the canonical plan, its object graph, or a Compose file of its containers.",
        "graph": "Draw the tasks and containers with their dependencies.",
        "explain": "Explain a field or an error code, or show who set a value and why.",
        "schema": "Print the JSON Schema of plan files, for editors.",
    },
    "Run it": {
        "diff": "Show the changes that applying a plan file would make.",
        "apply": "Apply a plan file and follow the run.",
        "wait": "Wait until tasks reach a state or a condition.",
        "down": "Stop the process that runs a plan.",
    },
    "Look at it": {
        "get": "List objects.",
        "describe": "Show one object: its conditions, why it waits and what would unblock it.",
        "tree": "Show the tree of tasks with their states.",
        "top": "Show agents with their turns, calls, tokens and cost, the highest first.",
        "events": "Show the records of the log.",
        "logs": "Show the output of commands and containers, and transcripts of agents.",
        "exec": "Run a command in a container of the plan.",
        "history": "List the plan's revisions with author and reason.",
        "serve": "Serve the web page and the API of a plan.",
        "mcp": "Let MCP clients work on tasks of a plan.",
    },
    "Change it while it runs": {
        "patch": "Change fields of the live plan.",
        "edit": "Open the live plan in your editor.",
        "pull": "Write the live plan back to its file.",
        "approve": "Approve a pending action.",
        "reject": "Reject a pending action.",
        "unlock": "Take a lock from its holder.",
        "pause": "Pause a subtree after its current step, and keep its work.",
        "resume": "Resume a paused subtree and retry what failed in it.",
        "cancel": "Cancel a subtree and keep its results.",
        "delete": "Remove a subtree or a container from the live plan.",
        "send": "Send a message to one or more agents.",
        "chat": "Chat with an agent of a running plan.",
        "rollback": "Restore an earlier revision. This makes a new revision.",
        "fork": "Copy a plan, to continue from a revision.",
    },
    "Measure agents": {
        "bench": "Run benchmark suites, and compare agents.",
    },
    "Keep it healthy": {
        "replay": "Replay the log and compare the result with the stored state.",
        "doctor": "Check this machine for missing programs, and show how to install them.",
        "image": "Build and list the stock images, which need no registry.",
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
"""Modules of verbs that share a module. Every other verb has the module of its name."""


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


# The `plan` command: find the verb, import only its module, and turn every result into an exit code.
#
# Import nothing heavy here: `plan --help` and `plan get` must take at most 90 ms as a whole process.

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
            import difflib  # Only if the verb is misspelt.

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `plan {near[0]}`?" if near else "plan --help lists the verbs"
            raise CommandError(ExitCode.USAGE, f"unknown verb `{args[0]}`", hint)
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
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.pass_context
def cli(ctx: click.Context, version: bool) -> None:
    """Run plans: trees of tasks for agents and commands that you can change while they run.

    \b
    plan init                       write a first plan
    plan diff  webchat.plan.yaml    show what applying it would change
    plan apply webchat.plan.yaml    run it, and follow the file while you edit it

    `plan VERB --help` shows examples. Exit codes: 0 done, 1 failed or different, 2 usage, 3 invalid plan, 4 conflict,
    5 refused, 6 not found, 8 cancelled, 9 timeout, 10 finished with failed tasks, 70 internal error.
    """
    if version:
        print_version()
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with one of `ExitCode`."""
    gc_control.collect_rarely()
    process.open_closed_streams()
    process.escape_control_characters()
    exit_process(run_command_line(sys.argv[1:] if arguments is None else arguments))


def exit_process(code: int) -> NoReturn:
    """End the process like `sys.exit`, without freeing its memory, which takes 30 ms.

    Exit handlers run and output is flushed. If a thread is still running or the output cannot be written, Python ends
    the process in the usual way and reports the problem.
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
    """Run the command line and return the exit code. Raises no exception."""
    try:
        ended = cli.main(args=list(arguments), prog_name="plan", standalone_mode=False)
    except CommandError as end:
        _say(end.text())
        return end.exit
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted; running work continues")
        return ExitCode.CANCELLED
    except click.ClickException as error:
        return _usage(error, arguments)
    except (BrokenPipeError, SystemExit):  # Click makes a SystemExit of a pipe that broke.
        # The reader of our output closed it, as `| head` does. Python would print an error at exit.
        sys.stderr.close()
        return ExitCode.DONE
    except Exception as error:
        return _ending_of(error, arguments)
    return ended if isinstance(ended, int) else ExitCode.DONE  # From click's Exit, which `plan exec` raises.


def _usage(error: click.ClickException, arguments: Sequence[str]) -> int:
    verb = next((word for word in arguments[:1] if word in VERBS), "")
    context = getattr(error, "ctx", None)  # The command with the error, for example `plan bench run`.
    meant = context.command_path if context is not None else f"plan {verb}"
    hint = f"{meant} --help" if verb else "plan --help"
    parameter = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and parameter is not None and parameter.name == "file":
        from pathlib import Path

        here = sorted(path.name for path in Path.cwd().glob("*.plan.*"))[:3]
        hint = " · ".join(f"plan {verb} {name}" for name in here) or "plan init creates a plan"
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
