"""`plan explain`."""

from __future__ import annotations

import click

from planloop.cli.options import access_to, plan_option
from planloop.exits import Exit, Halt

EXAMPLE = """
\b
Examples:
  plan explain acceptance                   a field of a task
  plan explain task.budget.usd              one inside another
  plan explain P0203                        an error code
  plan explain --why task/frontend/goal     who set this value, when, and why
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
        answer = access.get("why", at=pointer_of(why))
        click.echo(explanations.why(answer))
        return
    if what is None:
        click.echo(explanations.index())
        return
    text = explaining.explain(what)
    if text is None:
        hint = explaining.suggestion(what) or "plan explain lists the fields"
        raise Halt(Exit.NOT_FOUND, f"there is no field or error code `{what}`", hint)
    click.echo(text.rstrip())


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
