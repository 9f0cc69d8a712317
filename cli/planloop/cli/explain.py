"""`plan explain`: a field, an error code, or who set a value and why."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import client_of_plan, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.render import printer, records
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.log.patch import describe_author
from planloop.schemas.resource import Resource
from planloop.schemas.spec import tables

EXAMPLE = """
\b
Examples:
  plan explain acceptance                   a field of a task
  plan explain task.budget.usd              a nested field
  plan explain suite.cases                  a field of a benchmark suite
  plan explain P0203                        an error code
  plan explain lib:planning                 a library entry; lib: lists them
  plan explain --why task/frontend/goal     who set this value, when, and why
  plan explain --why task/ui/agent.tools    the prototype or mixin that it comes from
  plan explain --why hook/ui/guard/match    where a hook is set, or what it extends
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", required=False, metavar="FIELD | CODE | lib:NAME")
@click.option(
    "--why", metavar="PATH", help="Show who set a part of the live plan: task/NAME, task/NAME/FIELD, or /pointer."
)
@plan_option
def command(what: str | None, why: str | None, plan: str | None) -> None:
    """Explain a field or an error code, or show who set a value and why.

    Without an argument, list the fields. `lib:NAME` prints an entry of the library.
    """
    from planloop.client.plan_sources import FolderSources
    from planloop.compiler import explain

    if why is not None:
        access = client_of_plan(plan)
        click.echo(
            made_of(access, why) or value_origin(access.get("why", at=json_pointer.render_pointer(_place(access, why))))
        )
        return
    if what is None:
        click.echo(field_index())
        return
    library = FolderSources(Path())
    text = explain.explain_topic(what) or explain.library_page(what, library)
    if text is None:
        hint = explain.suggest_library_topic(what, library) or explain.suggest_topic(what)
        raise CommandError(ExitCode.NOT_FOUND, f"unknown field, error code or library entry `{what}`", hint)
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
            ExitCode.USAGE,
            "the plan as a whole has many authors",
            "plan history lists them; or name a field, for example goal",
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
                ExitCode.USAGE, f"{item.address} was created at run time: it is not written in the plan", hint
            )
    if not json_pointer.has_value(document, place):
        hint = f"name one of its fields: plan explain --why {field}"
        raise CommandError(ExitCode.NOT_FOUND, f"{item.address} has no place of its own in the plan", hint)
    return place


def made_of(access: PlanClient, text: str) -> str | None:
    """Return the source of a field that an agent or a hook does not state itself.

    For an agent this is a prototype, a mixin or its ancestors; for a hook it is what the hook extends, or where it is
    set. None when `text` is not `task/a/b/agent.FIELD` or `hook/a/NAME/FIELD`, or the field is
    written in that place.
    """
    from planloop.client.plan_sources import FolderSources
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
    return definition_text(values, source)


# Pages of `plan explain`: the list of fields, and who set a value and why.


def field_index() -> str:
    """Every table of a plan with the names of its fields, and the names of the others."""
    lines = []
    for table in tables.TABLES.values():
        names = ", ".join(one.name for one in table.fields)
        lines.append(f"{table.name}: {table.doc}\n    {names}")
    others = ", ".join(name for name in tables.TABLE_BY_NAME if name not in tables.TABLES)
    return "\n".join([*lines, f"fields of benchmark suites and their worlds, not of plans:\n    {others}"])


def value_origin(answer: JsonObject) -> str:
    """Who set a value: the value first, then the revision, its author, its reason, and what it took the place of."""
    lines = [_shown(answer["value"])]
    where = f" ({answer['file']})" if answer["by"] == "human:file" and answer.get("file") else ""
    over = ""
    if answer["had_before"]:
        by = (
            f" of rev {answer['over']['rev']}, by {describe_author(answer['over']['by'])}" if answer.get("over") else ""
        )
        over = f", over {_shown(answer['before'])}{by}"
    at = records.clock_time(answer["at"])
    lines.append(f"  set in rev {answer['rev']} by {describe_author(answer['by'])}{where} at {at}{over}")
    if answer["reason"]:
        lines.append(f"  reason: {answer['reason']}")
    lines.append(f"  open to agents: {'yes' if answer['open'] else 'no'}")
    return "\n".join(lines)


def definition_text(values: JsonObject, source: str | None) -> str:
    """Return the value that an agent has, and the prototype, mixin or line that states it; None if nothing does."""
    lines = [_listed(value) for value in values.values() if value or len(values) == 1]
    where = f"from {source}" if source else "not stated: inherited from its ancestors, set by its tier, or a default"
    return "\n".join([*lines, f"  {where}"])


def _listed(value: Json) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return _shown(value)


def _shown(value: Json) -> str:
    text = f'"{value}"' if isinstance(value, str) else printer.as_json(value)
    return text if len(text) <= 400 else text[:400] + " …"
