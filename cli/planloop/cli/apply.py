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
@click.option(
    "--yes", "-y", is_flag=True, help="Do not ask, and approve changes that would otherwise wait for approval."
)
@click.option("--dry-run", is_flag=True, help="Show the changes and exit.")
@click.option(
    "--detach",
    "-d",
    is_flag=True,
    help="Run the owner in the background until plan down, even after all tasks are done.",
)
@click.option("--sync", is_flag=True, help="Also write changes of the live plan back to the file.")
@click.option("--target", multiple=True, metavar="TASK", help="Apply only this subtree. Repeatable.")
@click.option("--exclude", multiple=True, metavar="TASK", help="Apply everything except this subtree. Repeatable.")
@model_option
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the preview and exit.")
@click.option("--plan-file", type=click.Path(path_type=Path), metavar="FILE", help="Apply a saved preview.")
@max_size_option
@click.option("--as-is", is_flag=True, hidden=True, help="Continue the live plan without applying the file.")
@click.option(
    "--stay", is_flag=True, hidden=True, help="Keep the owner running after all tasks are done; used by --detach."
)
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
    """Apply a plan file and follow the run.

    The command shows progress until every task is done (exit 0) or a task failed (exit 10). If you save the file
    meanwhile, the change is applied to the running plan. If another process already runs the plan, this command sends
    it the file and follows.

    Ctrl-C detaches: running commands continue, and the next apply adopts them.
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
            hint = "choose the options when you save the preview: plan apply FILE --out PREVIEW"
            raise CommandError(ExitCode.USAGE, "a saved preview already fixes the file and its options", hint)
        apply_run.apply_saved(plan_file, options)
    elif file is None:
        raise CommandError(ExitCode.USAGE, "no plan file given", "plan apply FILE, or --plan-file with a saved preview")
    elif dry_run:
        apply_run.dry_run(file, options)
    elif out is not None:
        apply_run.save_preview(file, out, options)
    else:
        apply_run.apply_plan(file, options)
