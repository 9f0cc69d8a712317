"""`plan explain`."""

from __future__ import annotations

import click

from planloop.access import Access
from planloop.cli.options import access_to, plan_option
from planloop.exits import Exit, Halt

EXAMPLE = """
\b
Examples:
  plan explain acceptance                   a field of a task
  plan explain task.budget.usd              one inside another
  plan explain P0203                        an error code
  plan explain --why task/frontend/goal     who set this value, when, and why
  plan explain --why task/ui/agent.tools    which prototype or mixin it is from
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
        click.echo(made_of(access, why) or explanations.why(access.get("why", at=pointer_of(why))))
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
    """Where an agent has a field from that its task does not write: a prototype, a mixin, or the agents above it.

    None when `text` is not `task/a/b/agent.FIELD`, or the field is written in that place.
    """
    from compiler import check_document, explaining
    from planloop.rendering import explanations
    from planloop.sources import FolderSources
    from schemas import pointer
    from schemas.fields_all import fields_of

    head, _, rest = text.removeprefix("/").rpartition("/")
    name = rest.removeprefix("agent.")
    if name == rest or name not in fields_of("agent"):
        return None
    document = access.object(f"plan/{access.place.name}").spec
    if pointer.has(document, pointer.parse(pointer_of(text))):
        return None
    graph = check_document(document, sources=FolderSources(access.place.root)).graph
    address = f"agent/{head.removeprefix('task').strip('/') or '.'}"
    if graph is None or address not in graph.objects:
        return None
    field = fields_of("agent")[name]
    source = explaining.provenance(graph, address, field.name)
    values = {one: graph.objects[address].spec.get(one) for one in field.lowered}
    return explanations.made(values, source)


def pointer_of(text: str) -> str:
    """The pointer that `task/a/b/goal`, `a/goal` or `/tasks/a/goal` means. Raises Halt.

    In `task/a/b/goal` the last word is the field; a field within a field follows with dots: `task/a/budget.usd`.
    """
    from planloop.cli import patching, selecting
    from schemas import pointer

    if text.startswith("/"):
        return text
    head, _, field = text.rpartition("/")
    if not head or not field:
        task, _, rest = text.removeprefix("task/").partition(".")
        hint = f"plan explain --why task/{task or '.'}/{rest or 'goal'}"
        raise Halt(Exit.USAGE, f"`{text}` names no field of a task", hint)
    address = selecting.address_of("task/." if head == "task" else head)
    return pointer.render(patching.field_of(address, field))
