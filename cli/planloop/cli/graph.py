"""`plan graph`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import file_argument, output_option

EXAMPLE = """
\b
Examples:
  plan graph webchat.plan.yaml                      mermaid, for Markdown
  plan graph webchat.plan.yaml -o dot | dot -Tpng > plan.png
  plan graph webchat.plan.yaml -o svg > plan.svg    needs nothing else
"""


@click.command(epilog=EXAMPLE)
@file_argument
@output_option("mermaid", "dot", "svg")
def command(file: Path, output: str | None) -> None:
    """Draw the tasks and containers and what they need."""
    from planloop.app import compiling
    from planloop.cli.rendering import pictures

    found = compiling.required(file)
    tasks = pictures.drawn({address: wanted.spec for address, wanted in found.graph.objects.items()})
    draw = {"dot": pictures.dot, "svg": pictures.svg}.get(output or "", pictures.mermaid)
    click.echo(draw(found.name, tasks))
