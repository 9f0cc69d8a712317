"""`plan explain`."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli.options import access_to, plan_option
from planloop.schemas import pointer
from planloop.schemas.encoding import JsonObject
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
    from planloop.app.sources import FolderSources
    from planloop.cli.rendering import explanations
    from planloop.compiler import explaining, library_pages

    if why is not None:
        access = access_to(plan)
        click.echo(made_of(access, why) or explanations.why(access.get("why", at=pointer.render(_place(access, why)))))
        return
    if what is None:
        click.echo(explanations.index())
        return
    library = FolderSources(Path())
    text = explaining.explain(what) or library_pages.page(what, library)
    if text is None:
        hint = library_pages.suggestion(what, library) or explaining.suggestion(what)
        raise Halt(Exit.NOT_FOUND, f"there is no field, error code or part of the library `{what}`", hint)
    click.echo(text.rstrip())


def _place(access: Access, text: str) -> tuple[str, ...]:
    """The place in the live document of the field that `text` names, or else of the whole object. Raises Halt."""
    document = access.object(f"plan/{access.place.name}").spec
    is_field = text.startswith("/") or "/" in text.removeprefix("task/") or text in document
    if is_field and pointer.has(document, field := pointing.field_named(text)):
        return field
    if text in (".", "task/.", f"plan/{access.place.name}"):
        raise Halt(Exit.USAGE, "the plan as a whole is of many hands", "plan history lists them; name a field: goal")
    address = "task/" if text.startswith("/") else pointing.address_of(text)
    item = access.find(address) if address.startswith("task/") else access.object(address)
    return pointing.field_named(text) if item is None else _whole(item, document)


def _whole(item: Resource, document: JsonObject) -> tuple[str, ...]:
    """The place in the document of a whole object. Raises Halt for one that has none."""
    _, _, path = item.address.partition("/")
    match item.kind:
        case "hook":  # It is written where it is set, which may be above the agent that it watches.
            above = str(item.spec["set_at"]).partition("/")[2]
            place = pointing.field_of(f"hook/{above}/{path.rpartition('/')[2]}".replace("/./", "/"), "")
            field = f"{item.address}/on"
        case "task" | "agent" | "container":
            place, field = pointing.field_of(item.address, ""), f"task/{path}/agent.tools"
        case _:
            hint = f"plan describe {item.address} · plan events {item.address}"
            raise Halt(
                Exit.USAGE, f"{item.address} came to be while the plan runs: nobody wrote it into the plan", hint
            )
    if not pointer.has(document, place):
        hint = f"name a field of it: plan explain --why {field}"
        raise Halt(Exit.NOT_FOUND, f"{item.address} is not written in a place of its own", hint)
    return place


def made_of(access: Access, text: str) -> str | None:
    """Where an agent or a hook has a field from that is not written in its place.

    For an agent that is a prototype, a mixin, or the agents above it, for a hook what it is made from, or where it is
    set that it is here. None when `text` is not `task/a/b/agent.FIELD` or `hook/a/NAME/FIELD`, or the field is
    written in that place.
    """
    from planloop.app.sources import FolderSources
    from planloop.cli.rendering import explanations
    from planloop.compiler import check_document, explaining
    from planloop.schemas.fields_all import fields_of

    head, _, rest = text.removeprefix("/").rpartition("/")
    is_hook = head.startswith("hook/")
    name = rest if is_hook else rest.removeprefix("agent.")
    if (name == rest and not is_hook) or name not in fields_of("hook" if is_hook else "agent"):
        return None
    document = access.object(f"plan/{access.place.name}").spec
    if pointer.has(document, pointing.field_named(text)):
        return None
    graph = check_document(document, sources=FolderSources(access.place.root)).graph
    address = head if is_hook else f"agent/{head.removeprefix('task').strip('/') or '.'}"
    if graph is None or address not in graph.objects:
        return None
    field = fields_of("hook" if is_hook else "agent")[name]
    source = explaining.provenance(graph, address, field.name)
    values = {one: graph.objects[address].spec.get(one) for one in field.lowered}
    return explanations.made(values, source)
