"""`plan compile`, `plan validate` and `plan graph`: a plan file without a running plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planloop.cli.options import file_argument, max_size_option, output_option
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.render import printer
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX

if TYPE_CHECKING:
    from planloop.client.plan_file import PlanFile

COMPILE_EXAMPLE = """
\b
Examples:
  plan compile webchat.plan.edn             the same plan as canonical YAML
  plan compile webchat.plan.yaml --graph    the objects it compiles to
  plan compile webchat.plan.yaml --target compose > compose.yaml
"""


@click.command(epilog=COMPILE_EXAMPLE)
@file_argument
@output_option("yaml", "json")
@click.option("--graph", is_flag=True, help="Print the object graph: every object with its spec, references and owner.")
@click.option(
    "--target",
    type=click.Choice(["compose"]),
    help="Print the containers of the plan as a Compose file, for Compose 1.29 and 2.",
)
def compile_command(file: Path, output: str | None, graph: bool, target: str | None) -> None:
    """Print the canonical plan, its object graph, or a Compose file of its containers.

    The output is deterministic: the same file gives the same bytes. YAML and EDN of one plan give the same graph.
    """
    from planloop.client import plan_file

    if graph and target:
        raise click.UsageError("--graph and --target cannot be combined")
    found = plan_file.require_compiled(file)
    made = _graph(found) if graph else _compose(found) if target else found.document
    printer.print_structured(made, output or "yaml")


def _compose(file: PlanFile) -> JsonObject:
    from planloop.containers.compose.compose_file import compose_file, unsupported_in_compose
    from planloop.schemas.objects.container import container_from_json

    wanted = (one for one in file.graph.objects.values() if one.address.startswith("container/"))
    specs = {one.address.partition("/")[2]: container_from_json(one.spec) for one in wanted}
    if not specs:
        raise CommandError(ExitCode.INVALID, f"`{file.name}` has no containers", "declare some under `containers:`")
    for sentence in unsupported_in_compose(specs):
        printer.print_note(f"warning: {sentence}")
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


VALIDATE_EXAMPLE = """
\b
Examples:
  plan validate webchat.plan.yaml
  plan validate webchat.plan.edn -o json      for editors and CI
  cat task.yaml | plan validate -
"""


@click.command(epilog=VALIDATE_EXAMPLE)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@output_option("json", "yaml")
@max_size_option
def validate_command(files: tuple[Path, ...], output: str | None, max_size: int | None) -> None:
    """Check a plan file for errors.

    Report every error, with its location and a suggested fix. Exit 3 if there is an error; warnings do not count.
    """
    from planloop.client import plan_file
    from planloop.client.render import diagnostics

    read = [plan_file.read_plan(path, size_max=max_size or PLAN_FILE_BYTES_MAX) for path in files]
    if output:
        printer.print_structured(
            diagnostics.diagnostics_text(one for file in read for one in file.compiled.diagnostics), output
        )
    else:
        for file in read:
            plan_file.print_diagnostics(file)
            if not file.errors:
                click.echo(
                    f"{plan_file.diagnostic_file_name(file.path)}: {file.name} is valid, {_counted(file.graph.objects)}"
                )
    if any(file.errors for file in read):
        raise CommandError(ExitCode.INVALID)


def _counted(addresses: Iterable[str]) -> str:
    """`2 tasks, 1 container`: the root task is not counted, and containers only where there are some."""
    kinds = Counter(address.partition("/")[0] for address in addresses)
    containers = [quantities.pluralize(kinds["container"], "container")] if kinds["container"] else []
    return ", ".join([quantities.pluralize(kinds["task"] - 1, "task"), *containers])


GRAPH_EXAMPLE = """
\b
Examples:
  plan graph webchat.plan.yaml                      mermaid, for Markdown
  plan graph webchat.plan.yaml -o dot | dot -Tpng > plan.png
  plan graph webchat.plan.yaml -o svg > plan.svg    needs nothing else
"""


@click.command(epilog=GRAPH_EXAMPLE)
@file_argument
@output_option("mermaid", "dot", "svg")
def graph_command(file: Path, output: str | None) -> None:
    """Draw the tasks and containers with their dependencies."""
    from planloop.client import plan_file
    from planloop.client.render import task_graph

    found = plan_file.require_compiled(file)
    tasks = task_graph.text_graph({address: wanted.spec for address, wanted in found.graph.objects.items()})
    draw = {"dot": task_graph.dot_graph, "svg": task_graph.svg_graph}.get(output or "", task_graph.mermaid_graph)
    click.echo(draw(found.name, tasks))
