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
  plan fork --at 41                         webchat-41, from revision 41 on
  plan fork --at 41 --as careful            under a name of yours
  plan fork --as elsewhere --files ../try   with a copy of the files, from the last revision on
"""


@click.command(epilog=EXAMPLE)
@plan_option
@output_option("json", "yaml")
@click.option("--at", "rev", type=int, metavar="REV", help="The revision to go on from; the last when left out.")
@click.option("--as", "name", metavar="NAME", help="The name of the fork; the plan's with the revision if left out.")
@click.option("--files", type=click.Path(path_type=Path), metavar="DIR", help="Copy the workspace to DIR, too.")
def command(plan: str | None, output: str | None, rev: int | None, name: str | None, files: Path | None) -> None:
    """Make a copy of the plan that goes on from a revision.

    Taken along: the document, every object with its state, transcripts, budgets, and who holds which lock among them,
    all under new ids, and a plan file NAME.plan.yaml of the plan as of then. Not taken along: processes, tool servers,
    and the earlier history, which stays with the original. A command that ran at that revision is in doubt in the
    fork, or is made again where its effect class allows; nothing that had been done is done again.

    Files are not as of then: both plans work in the same folder unless --files makes a copy of it as it is now. The
    original is only read, and may be running.
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
    click.echo(f"next: plan apply {_shown(made.file)} goes on from there")


def _shown(file: Path) -> str:
    """The file as one would name it from here."""
    here = Path.cwd().resolve()
    found = file.resolve()
    return str(found.relative_to(here)) if found.is_relative_to(here) else str(file)


def _notes(made: ForkedPlan, *, is_copied: bool) -> list[str]:
    out = [f"files: a copy as they are now, in {made.place.root}" if is_copied else "files: shared with the original"]
    if made.again:
        out.append(f"{quantities.pluralize(made.again, 'call')} that ran then will be made again")
    if made.doubts:
        doubt = quantities.pluralize(made.doubts, "call")
        out.append(f"{doubt} that ran then in doubt: plan get calls --plan {made.place.name}")
    if not made.is_spliced:
        out.append("its file is in canonical form: what the live plan said could not be written into yours")
    return out
