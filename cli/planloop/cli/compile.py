"""`plan compile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planloop.app.exits import Exit, Halt
from planloop.cli.options import file_argument, output_option
from planloop.cli.rendering import printing
from planloop.schemas.encoding import JsonObject

if TYPE_CHECKING:
    from planloop.app.compiling import PlanFile

EXAMPLE = """
\b
Examples:
  plan compile webchat.plan.edn             the same plan as canonical YAML
  plan compile webchat.plan.yaml --graph    the objects it comes to
  plan compile webchat.plan.yaml --target compose > compose.yaml
"""


@click.command(epilog=EXAMPLE)
@file_argument
@output_option("yaml", "json")
@click.option("--graph", is_flag=True, help="The lowered graph: every object with its spec, references and owner.")
@click.option(
    "--target",
    type=click.Choice(["compose"]),
    help="The containers of the plan as a Compose file, for Compose 1.29 and 2.",
)
def command(file: Path, output: str | None, graph: bool, target: str | None) -> None:
    """Print the canonical plan, the graph it compiles to, or its containers for Compose.

    The same file gives the same bytes, always; YAML and EDN of one plan give the same graph.
    """
    from planloop.app import compiling

    if graph and target:
        raise click.UsageError("--graph and --target exclude each other")
    found = compiling.required(file)
    made = _graph(found) if graph else _compose(found) if target else found.document
    printing.structured(made, output or "yaml")


def _compose(file: PlanFile) -> JsonObject:
    from planloop.containers.compose import compose_file, left_out
    from planloop.schemas.container import container_from_json

    wanted = (one for one in file.graph.objects.values() if one.address.startswith("container/"))
    specs = {one.address.partition("/")[2]: container_from_json(one.spec) for one in wanted}
    if not specs:
        raise Halt(Exit.INVALID, f"`{file.name}` has no containers", "declare some under `containers:`")
    for sentence in left_out(specs):
        printing.note(f"warning: {sentence}")
    return compose_file(specs)


def _graph(file: PlanFile) -> JsonObject:
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
