"""`plan diff` and `plan pull`: compare the live plan with its file, and write it back."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import file_argument, max_size_option, model_option, output_option
from planloop.client.exit_codes import CommandError, ExitCode

DIFF_EXAMPLE = """
\b
Examples:
  plan diff webchat.plan.yaml
  plan diff webchat.plan.yaml --target task/frontend
  plan diff webchat.plan.yaml --model ollama/qwen3:8b
  plan diff webchat.plan.yaml -o json       for programs
"""


@click.command(epilog=DIFF_EXAMPLE)
@file_argument
@output_option("json", "yaml")
@click.option("--target", multiple=True, metavar="TASK", help="Compare only this subtree. Repeatable.")
@click.option("--exclude", multiple=True, metavar="TASK", help="Compare everything except this subtree. Repeatable.")
@model_option
@click.option(
    "--checks", is_flag=True, help="Also run the acceptance checks, in their sandboxes, and show which pass now."
)
@max_size_option
def diff_command(
    file: Path,
    output: str | None,
    target: tuple[str, ...],
    exclude: tuple[str, ...],
    model: str | None,
    checks: bool,
    max_size: int | None,
) -> None:
    """Show the changes that applying a plan file would make.

    Deletions come first, each with its action, its reason, its running work and its cost so far. Nothing is changed.
    Exit 0 if there are no differences, 1 if there are differences, above 1 for an error.
    """
    from planloop.cli import preview

    shown = preview.preview_path(file, targets=target, excludes=exclude, model=model, max_size=max_size)
    preview.print_preview(shown, output)
    if checks:
        preview.print_checks(shown)
    if shown.answer["faults"]:
        from planloop.client.error_report import refused_error

        raise refused_error(shown.answer)
    if preview.has_changes(shown):
        raise CommandError(ExitCode.FAILED)


PULL_EXAMPLE = """
\b
Examples:
  plan pull webchat.plan.yaml
  plan pull webchat.plan.yaml --dry-run
"""


@click.command(epilog=PULL_EXAMPLE)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be written.")
def pull_command(file: Path, dry_run: bool) -> None:
    """Write the live plan back to its file.

    Only the bytes that must change are written: comments, quotes, order and blank lines stay. Edits in the file that
    are not applied yet are merged first. If the file cannot be changed safely, the live plan is written to FILE.new.
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
            ExitCode.NOT_FOUND, f"{found.name} was never applied: there is nothing to pull", f"plan apply {file}"
        )
    if shown.answer["faults"]:
        from planloop.client.error_report import refused_error

        raise refused_error(shown.answer)
    # What would be live after applying this file: its own pending edits, and everything that it lacks.
    wanted = shown.answer["document"]
    if dry_run:
        from planloop.schemas import json_patch

        ops = tuple(json_patch.diff_values(found.document, wanted))
        click.echo(f"{file}: {patch_words(ops) or 'already matches the live plan'}")
        return
    match plan_file_update.pull_plan(found, wanted):
        case plan_file_update.PulledInPlace(content, ops):
            click.echo(f"{file}: {patch_words(ops) or 'already matches the live plan'}")
            if ops:
                _record_pull(PlanClient(place), plan_file.compile_plan(file, content))
        case plan_file_update.PulledBeside(path, why):
            raise CommandError(
                ExitCode.CONFLICT, f"{file} was not changed: {why}", f"the live plan is in {path}: compare and copy"
            )
        case plan_file_update.PulledMoved():
            raise CommandError(
                ExitCode.CONFLICT,
                f"{file} was saved by another program meanwhile; nothing was written",
                f"run again: plan pull {file}",
            )


def _record_pull(access: object, file: object) -> None:
    """Makes what was written the base of the next merge."""
    from planloop.client.plan_client import PlanClient
    from planloop.client.plan_file import PlanFile
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.server.payloads import save_to_json

    assert isinstance(access, PlanClient)
    assert isinstance(file, PlanFile)
    save = FileSave(file.path.name, file.content, file.document, reason=f"pulled into {file.path.name}")
    access.post("file", save_to_json(save))
