"""`plan diff`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import file_argument, max_size_option, model_option, output_option
from planloop.client.exit_codes import CommandError, ExitCode

EXAMPLE = """
\b
Examples:
  plan diff webchat.plan.yaml
  plan diff webchat.plan.yaml --target task/frontend
  plan diff webchat.plan.yaml --model ollama/qwen3:8b
  plan diff webchat.plan.yaml -o json       for programs
"""


@click.command(epilog=EXAMPLE)
@file_argument
@output_option("json", "yaml")
@click.option("--target", multiple=True, metavar="TASK", help="Only this subtree. May be given again.")
@click.option("--exclude", multiple=True, metavar="TASK", help="Everything but this subtree. May be given again.")
@model_option
@click.option(
    "--checks", is_flag=True, help="Also run the acceptance checks, in their sandboxes, and say which hold now."
)
@max_size_option
def command(
    file: Path,
    output: str | None,
    target: tuple[str, ...],
    exclude: tuple[str, ...],
    model: str | None,
    checks: bool,
    max_size: int | None,
) -> None:
    """Show what applying a plan file would do.

    Deletions first, each with its action, its reason, what is running and what it has spent. Nothing is changed.
    Exit 0 when there is nothing to do, 1 when there are differences, above 1 for an error.
    """
    from planloop.cli import preview

    shown = preview.preview_path(file, targets=target, excludes=exclude, model=model, max_size=max_size)
    preview.print_preview(shown, output)
    if checks:
        preview.print_checks(shown)
    if shown.answer["faults"]:
        from planloop.client.gate_errors import refused_error

        raise refused_error(shown.answer)
    if preview.has_changes(shown):
        raise CommandError(ExitCode.FAILED)
