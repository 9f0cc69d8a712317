"""Options that verbs share, shell completion of object names, and the plan a command is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from planloop.client.plan_client import PlanClient
from planloop.client.plan_paths import PlanPaths, find_plan
from planloop.schemas.limits import PLAN_FILE_BYTES_LAST

# What a shell is offered when a person presses Tab: the names that the plan has, asked as every command asks.

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_addresses(*kinds: str) -> Completion:
    """Offers the objects of `kinds`, all without any; those of the first kind also without it, as the verb takes them.

    Without a plan, or with several, nothing is offered: completion must not print errors.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del parameter
        from planloop.client.exit_codes import CommandError

        try:
            found = client_of_plan(ctx.params.get("plan")).objects(*kinds)
        except CommandError:
            return []
        told = [CompletionItem(one.address, help=one.state) for one in found if one.address.startswith(incomplete)]
        first = f"{kinds[0]}/" if kinds else "task/"
        if told or not incomplete:
            return told
        bare = [(one.address.removeprefix(first), one.state) for one in found if one.address.startswith(first)]
        return [CompletionItem(name, help=state) for name, state in bare if name.startswith(incomplete)]

    return complete


# Options that many verbs share, and what they all need first: the plan they are about.

Verb = TypeVar("Verb", bound=Callable[..., Any])

OUTPUTS = ("json", "yaml", "name", "wide")


def plan_option(verb: Verb) -> Verb:
    """`--plan`: which plan, by name or by plan file."""
    text = "The plan, by name or by file. Optional if the folder has only one plan."
    return click.option("--plan", "-p", "plan", metavar="NAME", help=text)(verb)


def output_option(*formats: str) -> Callable[[Verb], Verb]:
    """`-o` with these formats."""
    text = "Output format: " + ", ".join(formats) + "."
    return click.option("-o", "--output", type=click.Choice(formats), metavar="FORMAT", help=text)


def max_size_option(verb: Verb) -> Verb:
    """`--max-size`, for verbs that read a plan file."""
    size = click.IntRange(1, PLAN_FILE_BYTES_LAST)
    text = f"The largest plan file to accept, up to {PLAN_FILE_BYTES_LAST >> 20} MiB."
    return click.option("--max-size", metavar="BYTES", type=size, default=None, help=text)(verb)


def model_option(verb: Verb) -> Verb:
    """`--model`: see `planloop.client.plan_file`."""
    text = (
        "Use this model for every agent: provider/name or name@http://host/v1; or record/FILE and replay/FILE to "
        "record and replay each agent's own model."
    )
    return click.option("--model", metavar="MODEL", help=text)(verb)


def file_argument(verb: Verb) -> Verb:
    """The plan file; `-` is standard input. Read by `planloop.client.plan_file`, which reports its errors."""
    return click.argument("file", metavar="FILE", type=click.Path(path_type=Path))(verb)


def paths_of_plan(plan: str | None) -> PlanPaths:
    """The plan that `--plan` or the current folder says. Raises CommandError."""
    return find_plan(plan, Path.cwd())


def client_of_plan(plan: str | None) -> PlanClient:
    """The same plan, to ask and to change."""
    return PlanClient(paths_of_plan(plan))
