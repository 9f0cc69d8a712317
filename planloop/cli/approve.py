"""`plan approve`."""

from __future__ import annotations

import click

from planloop import pointing
from planloop.cli import patching
from planloop.cli.options import access_to, plan_option
from planloop.exits import Exit, Halt
from schemas.encoding import JsonObject

EXAMPLE = """
\b
Examples:
  plan get approvals                          what waits
  plan approve approval/5b1e0c77a2f4
  plan approve approval/5b1e --answer name=Ada --answer age=36
  plan approve call/91c2 --did-not            a call in doubt did not happen: do it again
"""


@click.command(epilog=EXAMPLE)
@click.argument("what", metavar="APPROVAL | CALL")
@plan_option
@click.option("--happened", "happened", flag_value="yes", help="The call in doubt did happen.")
@click.option("--did-not", "happened", flag_value="no", help="The call in doubt did not happen.")
@click.option("--answer", "answers", metavar="NAME=VALUE", multiple=True, help="Part of the answer to a question.")
@click.option("--reason", default="", help="Why, for the history and for who asked.")
def command(what: str, plan: str | None, happened: str | None, answers: tuple[str, ...], reason: str) -> None:
    """Let something go on that waits for a person.

    A held edit, an agent's request, a question of a tool server, or a call whose outcome nobody saw: say which it was
    of a call.
    """
    access = access_to(plan)
    address = pointing.address_of(what, "approval")
    if not address.startswith("call/"):
        body: JsonObject = {"address": address, "reason": reason}
        if answers:
            body["content"] = pointing.answer_of(answers)
        patching.say(access.post("approve", body), access.place.name, did="approved")
        return
    if answers:
        raise Halt(Exit.USAGE, f"{address} asks no question", f"plan approve {address} --happened, or --did-not")
    if happened is None:
        call = access.object(address)
        hint = f"look first: plan describe {address}; then --happened or --did-not"
        raise Halt(Exit.USAGE, f"did {call.spec.get('tool')} of {call.spec.get('owner')} happen or not?", hint)
    answer = access.post("settle", {"address": address, "happened": happened == "yes", "reason": reason})
    then = "taken as done" if happened == "yes" else "made again"
    click.echo(f"{address} is {then}, rev {answer['rev']}")
