"""`plan explain`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import client_of_plan, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.resource import Resource

EXAMPLE = """
\b
Examples:
  plan explain acceptance                   a field of a task
  plan explain task.budget.usd              one inside another
  plan explain suite.cases                  a field of a benchmark suite
  plan explain P0203                        an error code
  plan explain lib:planning                 a part of the library; lib: lists them
  plan explain --why task/frontend/goal     who set this value, when, and why
  plan explain --why task/ui/agent.tools    which prototype or mixin it is from
  plan explain --why hook/ui/guard/match    where a hook is set, or what it is made from
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", required=False, metavar="FIELD | CODE | lib:NAME")
@click.option("--why", metavar="PATH", help="Who set this of the live plan: task/NAME, task/NAME/FIELD, or /pointer.")
@plan_option
def command(what: str | None, why: str | None, plan: str | None) -> None:
    """Explain a field, an error code, or who set a value and why.

    Without anything: the fields there are. `lib:NAME` is shown as the library has it.
    """
    from planloop.client.plan_sources import FolderSources
    from planloop.client.render import explanations
    from planloop.compiler import explain

    if why is not None:
        access = client_of_plan(plan)
        click.echo(
            made_of(access, why)
            or explanations.value_origin(access.get("why", at=json_pointer.render_pointer(_place(access, why))))
        )
        return
    if what is None:
        click.echo(explanations.field_index())
        return
    library = FolderSources(Path())
    text = explain.explain_topic(what) or explain.library_page(what, library)
    if text is None:
        hint = explain.suggest_library_topic(what, library) or explain.suggest_topic(what)
        raise CommandError(ExitCode.NOT_FOUND, f"there is no field, error code or part of the library `{what}`", hint)
    click.echo(text.rstrip())


def _place(access: PlanClient, text: str) -> tuple[str, ...]:
    """The place in the live document of the field that `text` names, or else of the whole object. Raises
    CommandError.
    """
    document = access.object(f"plan/{access.place.name}").spec
    is_field = text.startswith("/") or "/" in text.removeprefix("task/") or text in document
    if is_field and json_pointer.has_value(document, field := references.named_field(text)):
        return field
    if text in (".", "task/.", f"plan/{access.place.name}"):
        raise CommandError(
            ExitCode.USAGE, "the plan as a whole is of many hands", "plan history lists them; name a field: goal"
        )
    address = "task/" if text.startswith("/") else references.resolve_address(text)
    item = access.find(address) if address.startswith("task/") else access.object(address)
    return references.named_field(text) if item is None else _whole(item, document)


def _whole(item: Resource, document: JsonObject) -> tuple[str, ...]:
    """The place in the document of a whole object. Raises CommandError for one that has none."""
    _, _, path = item.address.partition("/")
    match item.kind:
        case "hook":  # It is written where it is set, which may be above the agent that it watches.
            above = str(item.spec["set_at"]).partition("/")[2]
            place = references.field_path(f"hook/{above}/{path.rpartition('/')[2]}".replace("/./", "/"), "")
            field = f"{item.address}/on"
        case "task" | "agent" | "container":
            place, field = references.field_path(item.address, ""), f"task/{path}/agent.tools"
        case _:
            hint = f"plan describe {item.address} · plan events {item.address}"
            raise CommandError(
                ExitCode.USAGE, f"{item.address} came to be while the plan runs: nobody wrote it into the plan", hint
            )
    if not json_pointer.has_value(document, place):
        hint = f"name a field of it: plan explain --why {field}"
        raise CommandError(ExitCode.NOT_FOUND, f"{item.address} is not written in a place of its own", hint)
    return place


def made_of(access: PlanClient, text: str) -> str | None:
    """Where an agent or a hook has a field from that is not written in its place.

    For an agent that is a prototype, a mixin, or the agents above it, for a hook what it is made from, or where it is
    set that it is here. None when `text` is not `task/a/b/agent.FIELD` or `hook/a/NAME/FIELD`, or the field is
    written in that place.
    """
    from planloop.client.plan_sources import FolderSources
    from planloop.client.render import explanations
    from planloop.compiler import explain
    from planloop.compiler.plan_compiler import check_document
    from planloop.schemas.spec.tables import fields_by_name

    head, _, rest = text.removeprefix("/").rpartition("/")
    is_hook = head.startswith("hook/")
    name = rest if is_hook else rest.removeprefix("agent.")
    if (name == rest and not is_hook) or name not in fields_by_name("hook" if is_hook else "agent"):
        return None
    document = access.object(f"plan/{access.place.name}").spec
    if json_pointer.has_value(document, references.named_field(text)):
        return None
    graph = check_document(document, sources=FolderSources(access.place.root)).graph
    address = head if is_hook else f"agent/{head.removeprefix('task').strip('/') or '.'}"
    if graph is None or address not in graph.objects:
        return None
    field = fields_by_name("hook" if is_hook else "agent")[name]
    source = explain.field_provenance(graph, address, field.name)
    values = {one: graph.objects[address].spec.get(one) for one in field.lowered}
    return explanations.definition_text(values, source)
