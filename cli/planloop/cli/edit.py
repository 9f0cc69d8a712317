"""`plan edit`."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

import click

from planloop.cli import patch
from planloop.cli.options import client_of_plan, plan_option
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.schemas.canonical_json import JsonObject

EXAMPLE = """
\b
Examples:
  plan edit
  EDITOR="code --wait" plan edit --plan webchat
"""
HEAD = """\
# The live plan {plan}, rev {rev}. Save and close to apply; leave it unchanged, or empty it, to change nothing.
# Changes that others make meanwhile are merged by field. The plan file does not change; run `plan pull` to update it.
"""


@click.command(epilog=EXAMPLE)
@plan_option
@click.option("--reason", default="edited", show_default=True, help="The reason, for the history.")
def command(plan: str | None, reason: str) -> None:
    """Open the live plan in your editor.

    When you save and close the editor, your changes are applied to the live plan. To write them to the plan file, run
    `plan pull`. If the text has errors, they are shown and you can edit it again. If you do not, nothing is changed,
    and your text stays in a file whose path is printed. Changes that others made meanwhile are merged by field; if you
    both changed the same field, your value is used and a note is printed.
    """
    from planloop.compiler import read

    access = client_of_plan(plan)
    base: JsonObject = access.object(f"plan/{access.place.name}").spec
    rev = access.get("status")["rev"]
    text = HEAD.format(plan=access.place.name, rev=rev) + read.format_yaml(base)
    with tempfile.NamedTemporaryFile("w", suffix=".plan.yaml", prefix=f"{access.place.name}-", delete=False) as file:
        file.write(text)
    path = Path(file.name)
    wanted = _edited(access, path, text)
    if wanted is None or wanted == base:
        path.unlink()
        click.echo("nothing was changed")
        return
    _submit(access, base, wanted, (reason, path))
    path.unlink()


def _edited(access: PlanClient, path: Path, before: str) -> JsonObject | None:
    """The document that the person left in the editor; None for no change. Raises CommandError, keeping the file."""
    from planloop.client import plan_file, process

    editor = process.environment().get("VISUAL") or process.environment().get("EDITOR") or "vi"
    while True:
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            code = error.strerror if isinstance(error, OSError) else f"exit code {error.returncode}"
            hint = f"set EDITOR to another editor; your text is in {path}"
            raise CommandError(
                ExitCode.USAGE, f"the editor `{editor}` failed: {code}; nothing was changed", hint
            ) from None
        text = path.read_text()
        if text == before or not _body(text).strip():
            return None
        file = plan_file.compile_plan(access.place.root / path.name, text.encode())
        if not file.errors:
            return file.document
        problems = plan_file.fault_text(file, color=False)
        before = "".join(f"# {line}\n" for line in problems.splitlines()) + _body(text)
        path.write_text(before)
        if not _wants_again(problems):
            raise CommandError(ExitCode.INVALID, "the edit has errors; nothing was changed", f"your text is in {path}")


def _wants_again(problems: str) -> bool:
    try:
        return click.confirm(f"{problems}Edit again?", default=True)
    except click.Abort:
        return False  # Ctrl-C, or no terminal: the caller still prints where the text is.


def _body(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _submit(access: PlanClient, base: JsonObject, wanted: JsonObject, given: tuple[str, Path]) -> None:
    from planloop.compiler import merge
    from planloop.schemas.json_patch import diff_values

    reason, path = given
    live: JsonObject = access.object(f"plan/{access.place.name}").spec
    merged = merge.merge_documents(base, wanted, live)
    for conflict in merged.conflicts:
        click.echo(f"note: {conflict.words.replace('the file', 'your edit')}", err=True)
    ops = [op.to_json() for op in diff_values(live, merged.document)]
    try:
        patch.submit_patch(access, ops, reason=reason)
    except CommandError as halt:
        raise CommandError(
            halt.exit, halt.summary, f"{halt.hint}\nyour text is in {path}".strip(), label=halt.label
        ) from None
