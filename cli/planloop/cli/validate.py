"""`plan validate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from planloop.app.exits import Exit, Halt
from planloop.cli.options import max_size_option, output_option
from planloop.cli.rendering import printing
from planloop.schemas import amounts
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX

EXAMPLE = """
\b
Examples:
  plan validate webchat.plan.yaml
  plan validate webchat.plan.edn -o json      for editors and CI
  cat task.yaml | plan validate -
"""


@click.command(epilog=EXAMPLE)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@output_option("json", "yaml")
@max_size_option
def command(files: tuple[Path, ...], output: str | None, max_size: int | None) -> None:
    """Say what is wrong with a plan file.

    All faults at once, by place, each with its cure. Exit 3 when there is one; warnings do not count.
    """
    from planloop.app import compiling
    from planloop.cli.rendering import diagnostics

    read = [compiling.read(path, size_max=max_size or PLAN_FILE_BYTES_MAX) for path in files]
    if output:
        printing.structured(diagnostics.report(one for file in read for one in file.compiled.diagnostics), output)
    else:
        for file in read:
            compiling.report(file)
            if not file.errors:
                click.echo(f"{compiling.shown(file.path)}: {file.name} is valid, {_counted(file.graph.objects)}")
    if any(file.errors for file in read):
        raise Halt(Exit.INVALID)


def _counted(addresses: Iterable[str]) -> str:
    """`2 tasks, 1 container`: the root task is not counted, and containers only where there are some."""
    kinds = Counter(address.partition("/")[0] for address in addresses)
    containers = [amounts.plural(kinds["container"], "container")] if kinds["container"] else []
    return ", ".join([amounts.plural(kinds["task"] - 1, "task"), *containers])
