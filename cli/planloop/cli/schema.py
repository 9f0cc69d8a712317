"""`plan schema`."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLE = """
\b
Examples:
  plan schema
  plan schema --write        puts it where the modeline of a plan file points: .plan/schema.json
"""
MODELINE = "# yaml-language-server: $schema=./.plan/schema.json"


@click.command(epilog=EXAMPLE)
@click.option("--write", is_flag=True, help="Write .plan/schema.json instead of printing.")
def command(write: bool) -> None:
    """Print the JSON Schema that editors complete and check with.

    Draft-07. The first line of a plan file names it for editors with the YAML language server.
    """
    if not write:
        click.echo(schema_text(), nl=False)
        return
    click.echo(f"wrote {write_schema(Path.cwd())}")
    click.echo(f"first line of a plan file: {MODELINE}")


def schema_text() -> str:
    """The schema that ships with this version."""
    from importlib.resources import files

    return files("planloop.schemas").joinpath("json", "plan.schema.json").read_text()


def write_schema(root: Path) -> Path:
    """Puts the schema in the state folder of `root`; returns its path relative to `root`."""
    from planloop.reconciler.storing import folders, layout

    path = root / layout.STATE / "schema.json"
    folders.make(path.parent)
    folders.write(path, schema_text().encode())
    return path.relative_to(root)
