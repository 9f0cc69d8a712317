"""`plan init`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from planloop.client.exit_codes import CommandError, ExitCode

EXAMPLE = """
\b
Examples:
  plan init                  named after the current folder
  plan init webchat
  plan init --example quickstart
"""
LIBRARY = "library"
EXAMPLES = "examples"


@click.command(epilog=EXAMPLE)
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="Overwrite an existing plan file.")
@click.option(
    "--example",
    metavar="EXAMPLE",
    help="Copy an example: quickstart, failure, redirect, locks, containers, socratic, webchat, team.",
)
def command(name: str | None, force: bool, example: str | None) -> None:
    """Write a commented plan, the editor schema and a library folder."""
    from planloop.cli.completion import write_schema

    root = Path.cwd()
    if example is not None:
        if name is not None:
            raise CommandError(
                ExitCode.USAGE, "--example cannot be combined with a name", f"plan init --example {example}"
            )
        copy_example(example, root, force=force)
        return
    name = name_from(name or root.name)
    file = root / f"{name}.plan.yaml"
    if file.exists() and not force:
        raise CommandError(
            ExitCode.CONFLICT, f"{file.name} already exists", f"plan init OTHER-NAME, or plan diff {file.name}"
        )
    file.write_text(template("plan.yaml").format(name=name))
    schema = write_schema(root)
    library = root / LIBRARY
    library.mkdir(exist_ok=True)
    prompt = library / "writer.md"
    if not prompt.exists():
        prompt.write_text(template("writer.md"))
    _ignore_state(root)
    width = max(len(file.name), len(LIBRARY) + 1)
    click.echo(f"created {file.name:{width}}   a commented plan; the schema for your editor is {schema}")
    click.echo(f"created {f'{LIBRARY}/':{width}}   your own prompts; the plan uses file:{LIBRARY}/{prompt.name}")
    click.echo(f"next: plan diff {file.name}")


def name_from(text: str) -> str:
    """Return a plan name made from any text: lower case, words joined by dashes. Raises CommandError if it is empty."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name:
        raise CommandError(
            ExitCode.USAGE, f"`{text}` has no letter or digit, so it cannot name a plan", "plan init NAME"
        )
    return name if name[0].isalpha() else f"plan-{name}"


def copy_example(example: str, root: Path, *, force: bool) -> None:
    """Copy the files of `example` to `root`, with the editor schema. Raises CommandError, copying nothing, if it fails.

    Without `force` no existing file is overwritten.
    """
    from planloop.cli.completion import write_schema
    from planloop.client import plan_sources

    shelf = plan_sources.plans() / EXAMPLES
    known = sorted(entry.name for entry in shelf.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_")))
    if example not in known:
        raise CommandError(ExitCode.NOT_FOUND, f"no example `{example}`", f"examples: {', '.join(known)}")
    found = {path.relative_to(shelf / example): path.read_bytes() for path in _sources(shelf / example)}
    there = [str(file) for file in found if (root / file).exists()]
    if there and not force:
        raise CommandError(
            ExitCode.CONFLICT, f"{', '.join(there)} would be overwritten", "use an empty folder, or add --force"
        )
    for file, content in found.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
        click.echo(f"created {file}")
    write_schema(root)
    _ignore_state(root)
    (first,) = (file for file in found if file.match(f"{example}.plan.yaml"))
    click.echo(f"next: plan diff {first} · plan apply {first}")


def _sources(folder: Path) -> list[Path]:
    """The files of an example as shipped, without what Python or a run in place left there."""
    made = {"__pycache__", ".plan"}
    return sorted(path for path in folder.rglob("*") if path.is_file() and not made & set(path.parts))


def template(name: str) -> str:
    """The text of a file in cli/planloop/cli/templates."""
    from importlib.resources import files

    return files("planloop.cli").joinpath("templates", name).read_text()


def _ignore_state(root: Path) -> None:
    """Write a .gitignore inside the state folder, so that no file of the user changes."""
    from planloop.reconciler.store import state_files

    state_files.write_private_file(root / state_files.STATE / ".gitignore", b"*\n")
