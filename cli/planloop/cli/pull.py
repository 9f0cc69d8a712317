"""`plan pull`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.client.exit_codes import CommandError, ExitCode

EXAMPLE = """
\b
Examples:
  plan pull webchat.plan.yaml
  plan pull webchat.plan.yaml --dry-run
"""


@click.command(epilog=EXAMPLE)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
def command(file: Path, dry_run: bool) -> None:
    """Write the live plan back into the file.

    Only the bytes that must change do: comments, quotes, order and blank lines stay. What is in the file and not yet
    applied is merged in first. Where it cannot be done safely, FILE.new is written beside it.
    """
    from planloop.cli import preview
    from planloop.client import plan_file, plan_file_update, plan_paths
    from planloop.client.plan_client import PlanClient
    from planloop.client.render.records import patch_words

    found = plan_file.require_compiled(file)
    place = plan_paths.paths_of_file(file, found.name)
    shown = preview.preview_plan_file(found)
    if shown.is_new:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{found.name} was never applied, so there is nothing to pull", f"plan apply {file}"
        )
    if shown.answer["faults"]:
        from planloop.client.gate_errors import refused_error

        raise refused_error(shown.answer)
    # What would be live after applying this file: its own pending edits, and everything that it lacks.
    wanted = shown.answer["document"]
    if dry_run:
        from planloop.schemas import json_patch

        ops = tuple(json_patch.diff_values(found.document, wanted))
        click.echo(f"{file}: {patch_words(ops) or 'says what is live already'}")
        return
    match plan_file_update.pull_plan(found, wanted):
        case plan_file_update.PulledInPlace(content, ops):
            click.echo(f"{file}: {patch_words(ops) or 'says what is live already'}")
            if ops:
                _tell(PlanClient(place), plan_file.compile_plan(file, content))
        case plan_file_update.PulledBeside(path, why):
            raise CommandError(
                ExitCode.CONFLICT, f"{file} was left alone: {why}", f"the live plan is in {path}: compare and copy"
            )
        case plan_file_update.PulledMoved():
            raise CommandError(
                ExitCode.CONFLICT, f"{file} was saved meanwhile; nothing was written", f"plan pull {file}"
            )


def _tell(access: object, file: object) -> None:
    """Makes what was written the base of the next merge."""
    from planloop.client.plan_client import PlanClient
    from planloop.client.plan_file import PlanFile
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.server.payloads import save_to_json

    assert isinstance(access, PlanClient)
    assert isinstance(file, PlanFile)
    save = FileSave(file.path.name, file.content, file.document, reason=f"pulled into {file.path.name}")
    access.post("file", save_to_json(save))
