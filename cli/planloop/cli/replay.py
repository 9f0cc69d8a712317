"""`plan replay`."""

from __future__ import annotations

import click

from planloop.cli.options import output_option, paths_of_plan, plan_option
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths
from planloop.client.render import printer
from planloop.schemas import quantities

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
    place = paths_of_plan(plan)
    if is_tree:
        _play(place, output)
    else:
        _fold(place, output)


def _fold(place: PlanPaths, output: str | None) -> None:
    from planloop.reconciler.store import backend

    with backend.open_log(place.folder) as log:
        found = log.replay()
    if output:
        listed = {"rev": found.rev, "objects": found.object_count, "different": list(found.different)}
        printer.print_structured(listed | {"mirror_rev": found.mirror_rev}, output)
    else:
        same = "the same" if not found.different else f"{len(found.different)} differ"
        objects = quantities.pluralize(found.object_count, "object")
        click.echo(f"{place.name}: {quantities.pluralize(found.rev, 'revision')} verified, {objects}, {same}")
        printer.print_lines(f"    {address}" for address in found.different)
    if found.different:
        raise CommandError(
            ExitCode.FAILED, "", "the log is the truth: remove log.db's snapshot by running plan apply again"
        )


def _play(place: PlanPaths, output: str | None) -> None:
    from planloop.owner import build
    from planloop.owner.replay import play

    found = play.replay_plan(build.replay_setup(place))
    if output:
        printer.print_structured(play.replay_json(found), output)
    else:
        printer.print_lines(play.replay_lines(found, place.name))
    if found.verdict == "diverged":
        raise CommandError(
            ExitCode.FAILED, "", "plan events shows the original; with the version that wrote it, it is the same"
        )
    if found.verdict == "inconclusive":
        raise CommandError(ExitCode.NOT_FOUND, "", "plan replay without --tree still verifies the log itself")
