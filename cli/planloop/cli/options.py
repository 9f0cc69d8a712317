"""Options that many verbs share, and what they all need first: the plan they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from planloop.app.access import Access
from planloop.app.places import Place, find
from planloop.schemas.limits import PLAN_FILE_BYTES_LAST

Verb = TypeVar("Verb", bound=Callable[..., Any])

OUTPUTS = ("json", "yaml", "name", "wide")


def plan_option(verb: Verb) -> Verb:
    """`--plan`: which plan, by name or by plan file."""
    text = "The plan, by name or by its file; not needed where only one lives."
    return click.option("--plan", "-p", "plan", metavar="NAME", help=text)(verb)


def output_option(*formats: str) -> Callable[[Verb], Verb]:
    """`-o` with these formats."""
    text = "How to print: " + ", ".join(formats) + "."
    return click.option("-o", "--output", type=click.Choice(formats), metavar="FORMAT", help=text)


def max_size_option(verb: Verb) -> Verb:
    """`--max-size`, for verbs that read a plan file."""
    size = click.IntRange(1, PLAN_FILE_BYTES_LAST)
    text = f"How large a plan file may be, up to {PLAN_FILE_BYTES_LAST >> 20} MiB."
    return click.option("--max-size", metavar="BYTES", type=size, default=None, help=text)(verb)


def model_option(verb: Verb) -> Verb:
    """`--model`: see `planloop.app.overriding`."""
    text = (
        "Every model that an agent states is answered by this one: provider/name, name@http://host/v1, or record/FILE "
        "and replay/FILE around its own."
    )
    return click.option("--model", metavar="MODEL", help=text)(verb)


def file_argument(verb: Verb) -> Verb:
    """The plan file; `-` is standard input. Read by `planloop.cli.files`, which words its faults."""
    return click.argument("file", metavar="FILE", type=click.Path(path_type=Path))(verb)


def place_of(plan: str | None) -> Place:
    """The plan that `--plan` or the current folder says. Raises Halt."""
    return find(plan, Path.cwd())


def access_to(plan: str | None) -> Access:
    """The same plan, to ask and to change."""
    return Access(place_of(plan))
