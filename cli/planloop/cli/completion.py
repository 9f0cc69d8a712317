"""`plan completion` for shells, and `plan schema` for editors."""

from __future__ import annotations

from pathlib import Path

import click

COMPLETION_EXAMPLE = """
\b
Examples:
  plan completion bash > ~/.local/share/bash-completion/completions/plan
  plan completion zsh > "${fpath[1]}/_plan"
  plan completion fish > ~/.config/fish/completions/plan.fish
"""


@click.command(epilog=COMPLETION_EXAMPLE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the shell completion script."""
    from click.shell_completion import get_completion_class

    from planloop.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None, "click knows the three shells that the argument allows"
    click.echo(made(cli, {}, "plan", "_PLAN_COMPLETE").source())


SCHEMA_EXAMPLE = """
\b
Examples:
  plan schema
  plan schema --write        write it to .plan/schema.json, where the modeline of a plan file points
"""
MODELINE = "# yaml-language-server: $schema=./.plan/schema.json"


@click.command(epilog=SCHEMA_EXAMPLE)
@click.option("--write", is_flag=True, help="Write .plan/schema.json instead of printing.")
def schema_command(write: bool) -> None:
    """Print the JSON Schema of plan files, for editors.

    It is draft-07. Editors with the YAML language server find it through the first line of a plan file.
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
    from planloop.reconciler.store import state_files

    path = root / state_files.STATE / "schema.json"
    state_files.make_folder(path.parent)
    state_files.write_private_file(path, schema_text().encode())
    return path.relative_to(root)
