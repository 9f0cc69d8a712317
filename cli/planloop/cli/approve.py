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

# The ways to resolve a conflict, for a command that names none.


def unresolved_error(access: PlanClient, address: str, words: str) -> CommandError:
    """Return the error of a command that does not say how to resolve a conflict: `words`, and each way as a command.

    Raises CommandError if the conflict does not exist.
    """
    found = access.object(address)
    status = conflict_status_from_json(found.status)
    if not status.is_open:
        return CommandError(
            ExitCode.CONFLICT, f"{address} is already resolved: {status.why}", f"plan describe {address}"
        )
    known = "\n".join(
        said for _, said in approval_requests.resolution_commands(address, conflict_from_json(found.spec))
    )
    return CommandError(ExitCode.USAGE, words, f"{known}\nboth sides: plan describe {address}")


APPROVE_EXAMPLE = """
\b
Examples:
  plan get approvals                          list pending actions
  plan approve approval/5b1e0c77a2f4
  plan approve approval/5b1e --answer name=Ada --answer age=36
  plan approve call/91c2 --did-not            the call did not happen: run it again
  plan approve hook/plan-first                end this hook
  plan approve conflict/3 --release           the holder keeps the files until its turn ends
  plan approve conflict/3 --merge --for backend --tell "keep the old names"
"""


VerbFunction: TypeAlias = Callable[..., None]


def answer_flag(name: str, among: str, words: str) -> Callable[[VerbFunction], VerbFunction]:
    """Declare one of several exclusive flags. Every given flag is kept, so that one error can name them all."""
    return click.option(f"--{name}", among, flag_value=name, multiple=True, help=words)


def require_single(flags: tuple[str, ...]) -> str | None:
    """Return the flag that was given. Raises CommandError for more than one."""
    if len(set(flags)) > 1:
        raise CommandError(
            ExitCode.USAGE, f"{' and '.join(f'--{each}' for each in flags)} cannot be combined", "give one of them"
        )
    return flags[0] if flags else None


ANSWERED = ("approval", "call", "conflict", "hook")


@click.command(epilog=APPROVE_EXAMPLE)
@click.argument("what", metavar="APPROVAL | CALL | CONFLICT | HOOK", shell_complete=complete_addresses(*ANSWERED))
@plan_option
@answer_flag("happened", "happened", "The call with an unknown outcome did happen.")
@answer_flag("did-not", "happened", "The call with an unknown outcome did not happen.")
@click.option("--answer", "answers", metavar="NAME=VALUE", multiple=True, help="Part of the answer to a question.")
@answer_flag("release", "hows", "Conflict: the holder releases the lock when its turn ends.")
@answer_flag("sequence", "hows", "Conflict: one agent goes first, the other after that task has ended.")
@answer_flag("merge", "hows", "Conflict: one agent does both parts.")
@answer_flag("fork", "hows", "Conflict: one agent works in its own branch, which is merged when it is done.")
@answer_flag("cancel", "hows", "Conflict: the task of one agent is cancelled.")
@click.option("--for", "for_agent", metavar="AGENT", default="", help="The agent that a conflict decision is about.")
@click.option("--tell", default="", help="A message to both agents about the decision.")
@click.option("--reason", default="", help="The reason, for the history and the requester.")
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
    """Approve a pending action.

    This can be a held edit, an agent's request, a tool server's question, a call with an unknown outcome (say whether
    it happened), a conflict of two agents over files (say how to resolve it), or a hook that stays until you end it.
    """
    how, did = require_single(hows), require_single(happened)
    access = client_of_plan(plan)
    address = references.resolve_address(what, "approval")
    address = address.replace("approval/conflict-", "conflict/")
    if address.startswith("conflict/"):
        _rule(access, address, how, {"for": for_agent, "plan": tell or reason})
        return
    if how is not None:
        raise CommandError(ExitCode.USAGE, f"{address} is not a conflict", "plan get conflicts lists them")
    if not address.startswith("call/"):
        body: JsonObject = {"address": address, "reason": reason}
        if answers:
            body["content"] = references.parse_answer(answers)
        patch.print_verdict(access.post("approve", body), address, did="was approved")
        return
    if answers:
        raise CommandError(
            ExitCode.USAGE, f"{address} does not ask a question", f"plan approve {address} --happened, or --did-not"
        )
    if did is None:
        call = access.object(address)
        hint = f"check with plan describe {address}, then give --happened or --did-not"
        raise CommandError(
            ExitCode.USAGE, f"did {call.spec.get('tool')} of {call.spec.get('owner')} happen or not?", hint
        )
    answer = access.post("settle", {"address": address, "happened": did == "happened", "reason": reason})
    then = "counts as done" if did == "happened" else "runs again"
    click.echo(f"{address} {then}, rev {answer['rev']}")


def _rule(access: PlanClient, address: str, how: str | None, more: JsonObject) -> None:
    """Resolve a conflict."""
    if how is None:
        raise unresolved_error(access, address, f"no resolution given for {address}")
    answer = access.post("rule", {"conflict": address, "how": how, **more})
    patch.print_verdict(answer, address, did=str(answer.get("said", "decided")))


REJECT_EXAMPLE = """
\b
Examples:
  plan get approvals
  plan reject approval/5b1e0c77a2f4 --reason "too expensive"
"""


@click.command(epilog=REJECT_EXAMPLE)
@click.argument("what", metavar="APPROVAL", shell_complete=complete_addresses("approval"))
@plan_option
@click.option("--reason", default="", help="The reason, for the history and the requester.")
def reject_command(what: str, plan: str | None, reason: str) -> None:
    """Reject a pending action."""
    access = client_of_plan(plan)
    address = references.resolve_address(what, "approval").replace("approval/conflict-", "conflict/")
    if address.startswith("conflict/"):
        raise unresolved_error(access, address, f"{address} cannot be rejected; choose how to resolve it")
    answer = access.post("reject", {"address": address, "reason": reason})
    click.echo(f"{address} was rejected, rev {answer['rev']}; nothing was changed")
