"""`plan version`."""

from __future__ import annotations

import click

from planloop.app import VERSION

EXAMPLE = """
\b
Example:
  plan version
"""


def print_version() -> None:
    """One line: the product and its version."""
    click.echo(f"planloop {VERSION}")


@click.command(epilog=EXAMPLE)
def command() -> None:
    """Print the version."""
    print_version()
