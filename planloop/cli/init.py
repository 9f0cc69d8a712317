"""`plan init`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from planloop.exits import Exit, Halt

EXAMPLE = """
\b
Examples:
  plan init                  named after the current folder
  plan init webchat
"""
LIBRARY = "library"


@click.command(epilog=EXAMPLE)
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="Overwrite a plan file that is there.")
def command(name: str | None, force: bool) -> None:
    """Write a commented plan, the editor schema and a library folder."""
    from planloop.cli.schema import write_schema

    root = Path.cwd()
    name = name_from(name or root.name)
    file = root / f"{name}.plan.yaml"
    if file.exists() and not force:
        raise Halt(Exit.CONFLICT, f"{file.name} is there already", f"plan init OTHER-NAME, or plan diff {file.name}")
    file.write_text(template("plan.yaml").format(name=name))
    schema = write_schema(root)
    library = root / LIBRARY
    library.mkdir(exist_ok=True)
    prompt = library / "writer.md"
    if not prompt.exists():
        prompt.write_text(template("writer.md"))
    _ignore_state(root)
    click.echo(f"created {file.name}   a commented plan; your editor completes it (schema in {schema})")
    click.echo(f"created {LIBRARY}/   prompts of your own; the plan names one as file:{LIBRARY}/{prompt.name}")
    click.echo(f"next: plan diff {file.name}")


def name_from(text: str) -> str:
    """A plan name out of any text: lower case, words joined by dashes. Raises Halt when nothing is left."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name:
        raise Halt(Exit.USAGE, f"`{text}` holds no letter or digit to name a plan with", "plan init NAME")
    return name if name[0].isalpha() else f"plan-{name}"


def template(name: str) -> str:
    """The text of a file in planloop/templates."""
    from importlib.resources import files

    return files("planloop").joinpath("templates", name).read_text()


def _ignore_state(root: Path) -> None:
    """The state folder is nobody's source: git is told inside it, so that no file of the person's is touched."""
    from reconciler import layout

    (root / layout.STATE / ".gitignore").write_text("*\n")
