"""`plan pull`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.app.exits import Exit, Halt

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
    from planloop.app import compiling, places, pulling
    from planloop.app.access import Access
    from planloop.cli import previewing
    from planloop.cli.rendering.records import patch_words

    found = compiling.required(file)
    place = places.of_file(file, found.name)
    shown = previewing.preview_of(found)
    if shown.is_new:
        raise Halt(Exit.NOT_FOUND, f"{found.name} was never applied, so there is nothing to pull", f"plan apply {file}")
    if shown.answer["faults"]:
        from planloop.app.verdicts import refusal

        raise refusal(shown.answer)
    # What would be live after applying this file: its own pending edits, and everything that it lacks.
    wanted = shown.answer["document"]
    if dry_run:
        from planloop.schemas import patching

        ops = tuple(patching.difference(found.document, wanted))
        click.echo(f"{file}: {patch_words(ops) or 'says what is live already'}")
        return
    match pulling.pull(found, wanted):
        case pulling.Written(content, ops):
            click.echo(f"{file}: {patch_words(ops) or 'says what is live already'}")
            if ops:
                _tell(Access(place), compiling.compiled(file, content))
        case pulling.Beside(path, why):
            raise Halt(Exit.CONFLICT, f"{file} was left alone: {why}", f"the live plan is in {path}: compare and copy")
        case pulling.Moved():
            raise Halt(Exit.CONFLICT, f"{file} was saved meanwhile; nothing was written", f"plan pull {file}")


def _tell(access: object, file: object) -> None:
    """Makes what was written the base of the next merge."""
    from planloop.app.access import Access
    from planloop.app.compiling import PlanFile
    from planloop.reconciler.editing.filing import FileSave
    from planloop.server.forms import save_to_json

    assert isinstance(access, Access)
    assert isinstance(file, PlanFile)
    save = FileSave(file.path.name, file.content, file.document, reason=f"pulled into {file.path.name}")
    access.post("file", save_to_json(save))
