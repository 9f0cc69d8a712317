"""`plan edit`."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

import click

from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli import patching
from planloop.cli.options import access_to, plan_option
from planloop.schemas.encoding import JsonObject

EXAMPLE = """
\b
Examples:
  plan edit
  EDITOR="code --wait" plan edit --plan webchat
"""
HEAD = """\
# The live plan {plan}, rev {rev}. Save and close to apply; leave it unchanged, or empty it, to change nothing.
# What others change meanwhile is merged by field. The plan file itself is not touched: `plan pull` does that.
"""


@click.command(epilog=EXAMPLE)
@plan_option
@click.option("--reason", default="edited", show_default=True, help="Why, for the history.")
def command(plan: str | None, reason: str) -> None:
    """Open the live plan in your editor.

    With faults the editor opens again with your text and the faults above it. Your text is never lost: on giving up it
    stays in a file that is named. What others changed meanwhile is merged by field; where both changed the same, yours
    is taken and that is said.
    """
    from planloop.compiler import formatting

    access = access_to(plan)
    base: JsonObject = access.object(f"plan/{access.place.name}").spec
    rev = access.get("status")["rev"]
    text = HEAD.format(plan=access.place.name, rev=rev) + formatting.to_yaml(base)
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


def _edited(access: Access, path: Path, before: str) -> JsonObject | None:
    """The document that the person left in the editor; None for no change. Raises Halt, keeping the file."""
    from planloop.app import compiling, wiring

    editor = wiring.environment().get("VISUAL") or wiring.environment().get("EDITOR") or "vi"
    while True:
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            code = error.strerror if isinstance(error, OSError) else f"exit code {error.returncode}"
            hint = f"set EDITOR to another one; your text is in {path}"
            raise Halt(Exit.USAGE, f"the editor `{editor}` failed: {code}; nothing was changed", hint) from None
        text = path.read_text()
        if text == before or not _body(text).strip():
            return None
        file = compiling.compiled(access.place.root / path.name, text.encode())
        if not file.errors:
            return file.document
        faults = compiling.fault_text(file, color=False)
        before = "".join(f"# {line}\n" for line in faults.splitlines()) + _body(text)
        path.write_text(before)
        if not _wants_again(faults):
            raise Halt(Exit.INVALID, "the edit has faults; nothing was changed", f"your text is in {path}")


def _wants_again(faults: str) -> bool:
    try:
        return click.confirm(f"{faults}Edit again?", default=True)
    except click.Abort:
        return False  # Ctrl-C, or nobody there to ask: the person is told where the text is all the same.


def _body(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _submit(access: Access, base: JsonObject, wanted: JsonObject, given: tuple[str, Path]) -> None:
    from planloop.compiler import merging
    from planloop.schemas.patching import difference

    reason, path = given
    live: JsonObject = access.object(f"plan/{access.place.name}").spec
    merged = merging.merge(base, wanted, live)
    for conflict in merged.conflicts:
        click.echo(f"note: {conflict.words.replace('the file', 'your edit')}", err=True)
    ops = [op.to_json() for op in difference(live, merged.document)]
    try:
        patching.submit(access, ops, reason=reason)
    except Halt as halt:
        raise Halt(halt.exit, halt.summary, f"{halt.hint}\nyour text is in {path}".strip(), label=halt.label) from None
