"""What the verbs that change the live plan share: from words to operations, to the gate, and what the gate said."""

from __future__ import annotations

from collections.abc import Sequence

import click

from planloop.access import Access
from planloop.exits import Exit, Halt
from planloop.rendering import differences, printing
from planloop.verdicts import refusal
from schemas import pointer
from schemas.encoding import Json, JsonObject, decode


def submit(access: Access, ops: Sequence[JsonObject], *, reason: str = "", dry_run: bool = False) -> None:
    """Sends one patch by `human:cli` and says what came of it. Raises Halt when it was refused."""
    verdict = access.post("patch", {"ops": list(ops), "reason": reason, "dry_run": dry_run})
    say(verdict, access.place.name)


def say(verdict: JsonObject, plan: str, *, did: str = "patched") -> None:
    """Prints what the gate decided, `did` for yes; raises Halt for a refusal."""
    from planloop import wiring

    match verdict["verdict"]:
        case "refused":
            raise refusal(verdict)
        case "held":
            click.echo(f"held: {verdict['why']}")
            _print_differences(verdict, wiring.now())
            approval = verdict["approval"]
            click.echo(f"next: plan approve {approval} · or: plan reject {approval}")
        case "preview":
            _print_differences(verdict, wiring.now())
            click.echo(f"{differences.summary(verdict['differences'])} · nothing was changed")
        case _:
            done = "nothing to change" if not verdict["changed"] else did
            click.echo(f"{plan} {done}, rev {verdict['rev']}")
            _print_differences(verdict, wiring.now())
    for note in verdict.get("notes", ()):
        printing.note(f"note: {note}")


def _print_differences(verdict: JsonObject, now: float) -> None:
    found = verdict.get("differences", ())
    shown = differences.text(found, now=now, width=printing.width()) or differences.unmoved(found)
    if shown:
        click.echo(shown)


def field_of(address: str, field: str) -> tuple[str, ...]:
    """The path in the document of a field of an object: `task/a/b` and `budget.usd`. Raises Halt."""
    kind, _, path = address.partition("/")
    names = () if path == "." else tuple(path.split("/"))
    fields = tuple(field.split(".")) if field else ()
    match kind:
        case "task":
            return (*pointer.of_task(names), *fields)
        case "agent":
            return (*pointer.of_task(names), "agent", *fields)
        case "container" | "hook":
            return (f"{kind}s", *names, *fields)
    raise Halt(
        Exit.USAGE, f"a {kind} is not part of the plan document", "patch a task, an agent, a container or a hook"
    )


def value_of(text: str) -> Json:
    """`40`, `true`, `null`, `[1, 2]` and `{"a": 1}` as JSON says; anything else is text."""
    try:
        return decode(text)
    except ValueError:
        return text
