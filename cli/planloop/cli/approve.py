"""`plan approve` and `plan reject`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import click

from planloop.cli import patch
from planloop.cli.options import client_of_plan, complete_addresses, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.render import approval_requests
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.conflict import conflict_from_json, conflict_status_from_json

# What a person may say to a conflict, for whoever has not said it.


def unresolved_error(access: PlanClient, address: str, words: str) -> CommandError:
    """The halt of a command that does not say how a conflict goes on: `words`, and each way as a command.

    Raises CommandError itself when there is no such conflict.
    """
    found = access.object(address)
    status = conflict_status_from_json(found.status)
    if not status.is_open:
        return CommandError(ExitCode.CONFLICT, f"{address} is over: {status.why}", f"plan describe {address}")
    known = "\n".join(
        said for _, said in approval_requests.resolution_commands(address, conflict_from_json(found.spec))
    )
    return CommandError(ExitCode.USAGE, words, f"{known}\nboth sides: plan describe {address}")


APPROVE_EXAMPLE = """
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


VerbFunction: TypeAlias = Callable[..., None]


def answer_flag(name: str, among: str, words: str) -> Callable[[VerbFunction], VerbFunction]:
    """One flag of several that exclude each other: all that were given are kept, to be refused together."""
    return click.option(f"--{name}", among, flag_value=name, multiple=True, help=words)


def require_single(flags: tuple[str, ...]) -> str | None:
    """The one that was given. Raises CommandError for more: what is meant decides over others' work."""
    if len(set(flags)) > 1:
        raise CommandError(
            ExitCode.USAGE, f"{' and '.join(f'--{each}' for each in flags)} exclude each other", "say one of them"
        )
    return flags[0] if flags else None


ANSWERED = ("approval", "call", "conflict", "hook")


@click.command(epilog=APPROVE_EXAMPLE)
@click.argument("what", metavar="APPROVAL | CALL | CONFLICT | HOOK", shell_complete=complete_addresses(*ANSWERED))
@plan_option
@answer_flag("happened", "happened", "The call in doubt did happen.")
@answer_flag("did-not", "happened", "The call in doubt did not happen.")
@click.option("--answer", "answers", metavar="NAME=VALUE", multiple=True, help="Part of the answer to a question.")
@answer_flag("release", "hows", "In a conflict: the holder lets go as its turn ends.")
@answer_flag("sequence", "hows", "One goes first, the other when its task has ended.")
@answer_flag("merge", "hows", "One does both parts.")
@answer_flag("fork", "hows", "One works in a branch of its own, merged when it is done.")
@answer_flag("cancel", "hows", "The task of one is cancelled.")
@click.option("--for", "for_agent", metavar="AGENT", default="", help="Which of the two a ruling is about.")
@click.option("--tell", default="", help="What the two are told of a ruling.")
@click.option("--reason", default="", help="Why, for the history and for who asked.")
def approve_command(
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
    how, did = require_single(hows), require_single(happened)
    access = client_of_plan(plan)
    address = references.resolve_address(what, "approval")
    address = address.replace("approval/conflict-", "conflict/")
    if address.startswith("conflict/"):
        _rule(access, address, how, {"for": for_agent, "plan": tell or reason})
        return
    if how is not None:
        raise CommandError(ExitCode.USAGE, f"{address} is no conflict", "plan get conflicts lists them")
    if not address.startswith("call/"):
        body: JsonObject = {"address": address, "reason": reason}
        if answers:
            body["content"] = references.parse_answer(answers)
        patch.print_verdict(access.post("approve", body), address, did="was approved")
        return
    if answers:
        raise CommandError(
            ExitCode.USAGE, f"{address} asks no question", f"plan approve {address} --happened, or --did-not"
        )
    if did is None:
        call = access.object(address)
        hint = f"look first: plan describe {address}; then --happened or --did-not"
        raise CommandError(
            ExitCode.USAGE, f"did {call.spec.get('tool')} of {call.spec.get('owner')} happen or not?", hint
        )
    answer = access.post("settle", {"address": address, "happened": did == "happened", "reason": reason})
    then = "taken as done" if did == "happened" else "made again"
    click.echo(f"{address} is {then}, rev {answer['rev']}")


def _rule(access: PlanClient, address: str, how: str | None, more: JsonObject) -> None:
    """Says how a conflict goes on."""
    if how is None:
        raise unresolved_error(access, address, f"how does {address} go on?")
    answer = access.post("rule", {"conflict": address, "how": how, **more})
    patch.print_verdict(answer, address, did=str(answer.get("said", "ruled")))


REJECT_EXAMPLE = """
\b
Examples:
  plan get approvals
  plan reject approval/5b1e0c77a2f4 --reason "too expensive"
"""


@click.command(epilog=REJECT_EXAMPLE)
@click.argument("what", metavar="APPROVAL", shell_complete=complete_addresses("approval"))
@plan_option
@click.option("--reason", default="", help="Why, for the history and for who asked.")
def reject_command(what: str, plan: str | None, reason: str) -> None:
    """Turn down something that waits for a person."""
    access = client_of_plan(plan)
    address = references.resolve_address(what, "approval").replace("approval/conflict-", "conflict/")
    if address.startswith("conflict/"):
        raise unresolved_error(access, address, f"nobody rejects {address}: somebody says how it goes on")
    answer = access.post("reject", {"address": address, "reason": reason})
    click.echo(f"{address} was rejected, rev {answer['rev']}; nothing was changed")
