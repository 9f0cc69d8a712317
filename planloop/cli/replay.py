"""`plan replay`."""

from __future__ import annotations

import click

from planloop.cli.options import output_option, place_of, plan_option
from planloop.exits import Exit, Halt
from planloop.rendering import amounts, printing

EXAMPLE = """
\b
Example:
  plan replay                  is what we hold what the log says?
"""


@click.command(epilog=EXAMPLE)
@plan_option
@output_option("json", "yaml")
def command(plan: str | None, output: str | None) -> None:
    """Fold the log again and compare.

    Verifies every checksum, folds all records from the first, and compares the result byte for byte with what opening
    the plan gives. Uses no clock, no network and starts nothing. Exit 1 when they differ.
    """
    from reconciler.storing import replaying

    place = place_of(plan)
    found = replaying.replay(place.folder)
    if output:
        listed = {"rev": found.rev, "objects": found.object_count, "different": list(found.different)}
        printing.structured(listed | {"mirror_rev": found.mirror_rev}, output)
    else:
        same = "the same" if not found.different else f"{len(found.different)} differ"
        objects = amounts.plural(found.object_count, "object")
        click.echo(f"{place.name}: {amounts.plural(found.rev, 'revision')} verified, {objects}, {same}")
        printing.lines(f"    {address}" for address in found.different)
    if found.different:
        raise Halt(Exit.FAILED, "", "the log is the truth: remove log.db's snapshot by running plan apply again")
