"""`plan compile`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import file_argument, output_option
from planloop.rendering import printing
from schemas.encoding import JsonObject

EXAMPLE = """
\b
Examples:
  plan compile webchat.plan.edn             the same plan as canonical YAML
  plan compile webchat.plan.yaml --graph    the objects it comes to
"""


@click.command(epilog=EXAMPLE)
@file_argument
@output_option("yaml", "json")
@click.option("--graph", is_flag=True, help="The lowered graph: every object with its spec, references and owner.")
def command(file: Path, output: str | None, graph: bool) -> None:
    """Print the canonical plan, or the graph it compiles to.

    The same file gives the same bytes, always; YAML and EDN of one plan give the same graph.
    """
    from planloop import compiling

    found = compiling.required(file)
    printing.structured(_graph(found) if graph else found.document, output or "yaml")


def _graph(file: object) -> JsonObject:
    from planloop.compiling import PlanFile

    assert isinstance(file, PlanFile)
    objects = {
        address: {
            "spec": wanted.spec,
            "refs": list(wanted.refs),
            "owner": wanted.owner,
            "finalizers": list(wanted.finalizers),
        }
        for address, wanted in file.graph.objects.items()
    }
    return {"plan": file.name, "objects": objects}
