"""What the verbs that change the live plan share: from words to operations, to the gate, and what the gate said."""

from __future__ import annotations

from collections.abc import Sequence

import click

from planloop.app.access import Access
from planloop.app.verdicts import refusal
from planloop.cli.rendering import differences, printing
from planloop.schemas.encoding import JsonObject


def submit(access: Access, ops: Sequence[JsonObject], *, reason: str = "", dry_run: bool = False) -> None:
    """Sends one patch by `human:cli` and says what came of it. Raises Halt when it was refused."""
    verdict = access.post("patch", {"ops": list(ops), "reason": reason, "dry_run": dry_run})
    say(verdict, access.place.name)


def say(verdict: JsonObject, plan: str, *, did: str = "patched") -> None:
    """Prints what the gate decided, `did` for yes; raises Halt for a refusal."""
    from planloop.app import wiring

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
    if left := verdict.get("differences_left"):
        click.echo(f"  and {left} more")
