"""`plan approve`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli import patching
from planloop.cli.completing import names
from planloop.cli.options import access_to, plan_option
from planloop.cli.ways import not_said
from planloop.schemas.encoding import JsonObject

EXAMPLE = """
\b
Examples:
  plan get approvals                          what waits
  plan approve approval/5b1e0c77a2f4
  plan approve approval/5b1e --answer name=Ada --answer age=36
  plan approve call/91c2 --did-not            a call in doubt did not happen: do it again
  plan approve hook/plan-first                it need not be watched for any longer
  plan approve conflict/3 --release           whoever holds the files has them to the end of its turn
  plan approve conflict/3 --merge --for backend --tell "keep the old names"
"""


Runs: TypeAlias = Callable[..., None]


def flag(name: str, among: str, words: str) -> Callable[[Runs], Runs]:
    """One flag of several that exclude each other: all that were given are kept, to be refused together."""
    return click.option(f"--{name}", among, flag_value=name, multiple=True, help=words)


def only(flags: tuple[str, ...]) -> str | None:
    """The one that was given. Raises Halt for more: what is meant decides over others' work."""
    if len(set(flags)) > 1:
        raise Halt(Exit.USAGE, f"{' and '.join(f'--{each}' for each in flags)} exclude each other", "say one of them")
    return flags[0] if flags else None


ANSWERED = ("approval", "call", "conflict", "hook")


@click.command(epilog=EXAMPLE)
@click.argument("what", metavar="APPROVAL | CALL | CONFLICT | HOOK", shell_complete=names(*ANSWERED))
@plan_option
@flag("happened", "happened", "The call in doubt did happen.")
@flag("did-not", "happened", "The call in doubt did not happen.")
@click.option("--answer", "answers", metavar="NAME=VALUE", multiple=True, help="Part of the answer to a question.")
@flag("release", "hows", "In a conflict: the holder lets go as its turn ends.")
@flag("sequence", "hows", "One goes first, the other when its task has ended.")
@flag("merge", "hows", "One does both parts.")
@flag("fork", "hows", "One works in a branch of its own, merged when it is done.")
@flag("cancel", "hows", "The task of one is cancelled.")
@click.option("--for", "for_agent", metavar="AGENT", default="", help="Which of the two a ruling is about.")
@click.option("--tell", default="", help="What the two are told of a ruling.")
@click.option("--reason", default="", help="Why, for the history and for who asked.")
def command(
    what: str,
    plan: str | None,
    happened: tuple[str, ...],
    answers: tuple[str, ...],
    hows: tuple[str, ...],
    for_agent: str,
    tell: str,
    reason: str,
) -> None:
    """Let something go on that waits for a person.

    A held edit, an agent's request, a question of a tool server, a call whose outcome nobody saw (say which it was), a
    conflict of two agents over files (say how it goes on), or a hook that is there until somebody says that it may go.
    """
    how, did = only(hows), only(happened)
    access = access_to(plan)
    address = pointing.address_of(what, "approval")
    address = address.replace("approval/conflict-", "conflict/")
    if address.startswith("conflict/"):
        _rule(access, address, how, {"for": for_agent, "plan": tell or reason})
        return
    if how is not None:
        raise Halt(Exit.USAGE, f"{address} is no conflict", "plan get conflicts lists them")
    if not address.startswith("call/"):
        body: JsonObject = {"address": address, "reason": reason}
        if answers:
            body["content"] = pointing.answer_of(answers)
        patching.say(access.post("approve", body), address, did="was approved")
        return
    if answers:
        raise Halt(Exit.USAGE, f"{address} asks no question", f"plan approve {address} --happened, or --did-not")
    if did is None:
        call = access.object(address)
        hint = f"look first: plan describe {address}; then --happened or --did-not"
        raise Halt(Exit.USAGE, f"did {call.spec.get('tool')} of {call.spec.get('owner')} happen or not?", hint)
    answer = access.post("settle", {"address": address, "happened": did == "happened", "reason": reason})
    then = "taken as done" if did == "happened" else "made again"
    click.echo(f"{address} is {then}, rev {answer['rev']}")


def _rule(access: Access, address: str, how: str | None, more: JsonObject) -> None:
    """Says how a conflict goes on."""
    if how is None:
        raise not_said(access, address, f"how does {address} go on?")
    answer = access.post("rule", {"conflict": address, "how": how, **more})
    patching.say(answer, address, did=str(answer.get("said", "ruled")))
