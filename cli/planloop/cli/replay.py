"""`plan replay`."""

from __future__ import annotations

import click

from planloop.app.exits import Exit, Halt
from planloop.app.places import Place
from planloop.cli.options import output_option, place_of, plan_option
from planloop.cli.rendering import printing
from planloop.schemas import amounts

EXAMPLE = """
\b
Examples:
  plan replay                  is what we hold what the log says?
  plan replay --tree           would the same be decided again?
"""


@click.command(epilog=EXAMPLE)
@plan_option
@output_option("json", "yaml")
@click.option("--tree", "is_tree", is_flag=True, help="Run the whole plan again, on what the log recorded.")
def command(plan: str | None, output: str | None, is_tree: bool) -> None:
    """Fold the log again and compare.

    Verifies every checksum, folds all records from the first, and compares the result byte for byte with what opening
    the plan gives. Uses no clock, no network and starts nothing. Exit 1 when they differ.

    With --tree every agent, task and lock decides again, in a scratch copy: replies of models, results of tools,
    commands and checks, and what people did are played back from the log at their places. Every prompt must have the
    digest it had, and the end must be the same but for ids. Exit 0 same; 1 diverged, with where and how; 6 when the log
    lacks something that would be needed.
    """
    place = place_of(plan)
    if is_tree:
        _play(place, output)
    else:
        _fold(place, output)


def _fold(place: Place, output: str | None) -> None:
    from planloop.reconciler.storing import replaying

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


def _play(place: Place, output: str | None) -> None:
    from planloop.app import wiring
    from planloop.app.replaying import playing
    from planloop.cli.rendering import replays

    found = playing.play(wiring.replay_stand(place))
    if output:
        printing.structured(replays.to_json(found), output)
    else:
        printing.lines(replays.lines(found, place.name))
    if found.verdict == "diverged":
        raise Halt(Exit.FAILED, "", "plan events shows the original; with the version that wrote it, it is the same")
    if found.verdict == "inconclusive":
        raise Halt(Exit.NOT_FOUND, "", "plan replay without --tree still verifies the log itself")
