"""`plan completion`."""

from __future__ import annotations

import click

EXAMPLE = """
\b
Examples:
  plan completion bash > ~/.local/share/bash-completion/completions/plan
  plan completion zsh > "${fpath[1]}/_plan"
  plan completion fish > ~/.config/fish/completions/plan.fish
"""


@click.command(epilog=EXAMPLE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the shell completion script."""
    from click.shell_completion import get_completion_class

    from planloop.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None, "click knows the three shells that the argument allows"
    click.echo(made(cli, {}, "plan", "_PLAN_COMPLETE").source())
