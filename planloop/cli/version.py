"""`plan version`."""

from __future__ import annotations

import click

EXAMPLE = """
\b
Example:
  plan version
"""


def print_version() -> None:
    """One line: the product and its version."""
    from importlib.metadata import version

    click.echo(f"planloop {version('planloop')}")


@click.command(epilog=EXAMPLE)
def command() -> None:
    """Print the version."""
    print_version()
