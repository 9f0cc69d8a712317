"""`plan apply`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import max_size_option, model_option
from planloop.client.exit_codes import CommandError, ExitCode

EXAMPLE = """
\b
Examples:
  plan apply webchat.plan.yaml                  run it and follow the file while you edit it
  plan apply webchat.plan.yaml --detach         in the background; plan down stops it
  plan apply webchat.plan.yaml --dry-run        the same as plan diff
  plan apply webchat.plan.yaml --model ollama/qwen3:8b
  plan apply webchat.plan.yaml --out saved.json && plan apply --plan-file saved.json
"""


@click.command(epilog=EXAMPLE)
@click.argument("file", metavar="FILE", required=False, type=click.Path(path_type=Path))
@click.option("--yes", "-y", is_flag=True, help="Do not ask, and let pass what would be held for approval.")
@click.option("--dry-run", is_flag=True, help="Show what it would do and leave.")
@click.option(
    "--detach", "-d", is_flag=True, help="Leave the owner in the background until plan down, also when all is done."
)
@click.option("--sync", is_flag=True, help="Also write what changes in the live plan back into the file.")
@click.option("--target", multiple=True, metavar="TASK", help="Only this subtree. May be given again.")
@click.option("--exclude", multiple=True, metavar="TASK", help="Everything but this subtree. May be given again.")
@model_option
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the preview and leave.")
@click.option("--plan-file", type=click.Path(path_type=Path), metavar="FILE", help="Apply a saved preview.")
@max_size_option
@click.option("--as-is", is_flag=True, hidden=True, help="Go on with the live plan; the file is not applied.")
@click.option("--stay", is_flag=True, hidden=True, help="Keep the owner when all is done: what --detach starts.")
def command(
    file: Path | None,
    yes: bool,
    dry_run: bool,
    detach: bool,
    sync: bool,
    target: tuple[str, ...],
    exclude: tuple[str, ...],
    model: str | None,
    out: Path | None,
    plan_file: Path | None,
    max_size: int | None,
    as_is: bool,
    stay: bool,
) -> None:
    """Make what runs follow the plan file, and watch both.

    Shows what it does as it does it, until everything is done (exit 0) or something failed (exit 10). Saving the file
    meanwhile redirects the work. If another process runs the plan already, the file goes to it and this one follows.

    Ctrl-C leaves: commands that run go on by themselves, and the next apply takes them over.
    """
    from planloop.cli import apply_run

    options = apply_run.ApplyOptions(
        yes=yes,
        detach=detach,
        sync=sync,
        targets=target,
        excludes=exclude,
        model=model,
        max_size=max_size,
        as_is=as_is,
        stay=stay,
    )
    if plan_file is not None:
        if file is not None or target or exclude or model or sync or dry_run or out is not None:
            hint = "choose them when it is made: plan apply FILE --out PREVIEW"
            raise CommandError(ExitCode.USAGE, "a saved preview says itself what of which file is applied", hint)
        apply_run.apply_saved(plan_file, options)
    elif file is None:
        raise CommandError(
            ExitCode.USAGE, "no plan file is named", "plan apply FILE, or --plan-file with a saved preview"
        )
    elif dry_run:
        apply_run.dry_run(file, options)
    elif out is not None:
        apply_run.save_preview(file, out, options)
    else:
        apply_run.apply_plan(file, options)
