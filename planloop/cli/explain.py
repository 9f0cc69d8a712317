"""`plan explain`."""

from __future__ import annotations

import click

from planloop import pointing
from planloop.access import Access
from planloop.cli.options import access_to, plan_option
from planloop.exits import Exit, Halt
from schemas import pointer

EXAMPLE = """
\b
Examples:
  plan explain acceptance                   a field of a task
  plan explain task.budget.usd              one inside another
  plan explain P0203                        an error code
  plan explain --why task/frontend/goal     who set this value, when, and why
  plan explain --why task/ui/agent.tools    which prototype or mixin it is from
  plan explain --why hook/ui/guard/match    where a hook is set, or what it is made from
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", required=False, metavar="FIELD | CODE")
@click.option("--why", metavar="PATH", help="Who set this value of the live plan: task/NAME/FIELD, or /pointer.")
@plan_option
def command(what: str | None, why: str | None, plan: str | None) -> None:
    """Explain a field, an error code, or who set a value and why.

    Without anything: the fields there are.
    """
    from compiler import explaining
    from planloop.rendering import explanations

    if why is not None:
        access = access_to(plan)
        place = pointer.render(pointing.field_named(why))
        click.echo(made_of(access, why) or explanations.why(access.get("why", at=place)))
        return
    if what is None:
        click.echo(explanations.index())
        return
    text = explaining.explain(what)
    if text is None:
        hint = explaining.suggestion(what) or "plan explain lists the fields"
        raise Halt(Exit.NOT_FOUND, f"there is no field or error code `{what}`", hint)
    click.echo(text.rstrip())


def made_of(access: Access, text: str) -> str | None:
    """Where an agent or a hook has a field from that is not written in its place.

    For an agent that is a prototype, a mixin, or the agents above it, for a hook what it is made from, or where it is
    set that it is here. None when `text` is not `task/a/b/agent.FIELD` or `hook/a/NAME/FIELD`, or the field is
    written in that place.
    """
    from compiler import check_document, explaining
    from planloop.rendering import explanations
    from planloop.sources import FolderSources
    from schemas.fields_all import fields_of

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
