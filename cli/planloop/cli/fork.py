"""`plan fork`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planloop.cli.options import output_option, paths_of_plan, plan_option
from planloop.client.render import printer
from planloop.schemas import quantities

if TYPE_CHECKING:
    from planloop.owner.plan_fork import ForkedPlan

EXAMPLE = """
\b
Examples:
  plan fork --at 41                         webchat-41, from revision 41
  plan fork --at 41 --as careful            with a name that you choose
  plan fork --as elsewhere --files ../try   from the last revision, with a copy of the files
"""


@click.command(epilog=EXAMPLE)
@plan_option
@output_option("json", "yaml")
@click.option("--at", "rev", type=int, metavar="REV", help="The revision to continue from. Default: the last.")
@click.option("--as", "name", metavar="NAME", help="The name of the fork. Default: the plan's name and the revision.")
@click.option("--files", type=click.Path(path_type=Path), metavar="DIR", help="Also copy the workspace to DIR.")
def command(plan: str | None, output: str | None, rev: int | None, name: str | None, files: Path | None) -> None:
    """Copy a plan, to continue from a revision.

    The fork has the plan of that revision, with the state, transcripts, budgets and locks of all its objects, and a new
    plan file NAME.plan.yaml. The earlier history, processes and tool servers are not copied. Finished work is not
    repeated. A command that was running at that revision runs again if its effect class allows it; otherwise its
    outcome is unknown.

    Files are not restored. The fork and the original share one folder, unless --files copies it as it is now. The
    original does not change, and may be running. To start the fork, run `plan apply NAME.plan.yaml`.
    """
    import anyio

    from planloop.owner import plan_fork
    from planloop.reconciler.clock import RandomIds, SystemClock

    options = plan_fork.PlanForkOptions(paths_of_plan(plan), rev, name, files)
    made = anyio.run(plan_fork.create_plan_fork, options, SystemClock(), RandomIds())
    if output:
        told = {"plan": made.place.name, "file": str(made.file), "origin": made.origin.to_json()}
        printer.print_structured(told | {"again": made.again, "doubts": made.doubts}, output)
        return
    click.echo(f"{made.place.name} is {made.origin.plan} as of rev {made.origin.rev}")
    for line in _notes(made, is_copied=files is not None):
        click.echo(f"  {line}")
    click.echo(f"next: plan apply {_shown(made.file)} starts the fork")


def _shown(file: Path) -> str:
    """The file as one would name it from here."""
    here = Path.cwd().resolve()
    found = file.resolve()
    return str(found.relative_to(here)) if found.is_relative_to(here) else str(file)


def _notes(made: ForkedPlan, *, is_copied: bool) -> list[str]:
    out = [
        f"files: a copy of their present content, in {made.place.root}"
        if is_copied
        else "files: shared with the original"
    ]
    if made.again:
        out.append(f"{quantities.pluralize(made.again, 'call')} that ran at that revision will run again")
    if made.doubts:
        doubt = quantities.pluralize(made.doubts, "call")
        out.append(f"{doubt} that ran at that revision, with unknown outcome: plan get calls --plan {made.place.name}")
    if not made.is_spliced:
        out.append("its file is in canonical form: the live plan could not be merged into your file")
    return out
