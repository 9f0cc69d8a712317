"""`plan send`."""

from __future__ import annotations

import sys
import time

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli.options import access_to, output_option, plan_option
from planloop.cli.rendering import printing
from planloop.schemas.encoding import JsonObject

EXAMPLE = """
\b
Examples:
  plan send agent/frontend "use the new palette"
  plan send frontend "stop guessing, ask" --delivery interrupt
  plan send frontend backend "the API is frozen now"
  git diff | plan send reviewer - --untrusted
  plan send reviewer "is this safe to merge?" --ask --timeout 5m
"""


@click.command(epilog=EXAMPLE)
@click.argument("words", metavar="AGENT... TEXT", nargs=-1, required=True)
@plan_option
@output_option("json", "yaml")
@click.option(
    "--delivery",
    type=click.Choice(["queue", "steer", "interrupt"]),
    default="queue",
    show_default=True,
    help="When it would sleep, at its next boundary, or stopping the step in flight.",
)
@click.option("--ask", is_flag=True, help="Wait for the answer and print it.")
@click.option("--timeout", metavar="TIME", help="Give up waiting after so long, as in 90s or 10m: exit 9.")
@click.option("--expires", metavar="TIME", help="Drop it if it is not read by then.")
@click.option("--key", metavar="KEY", default="", help="Sending again with the same key changes nothing.")
@click.option("--untrusted", is_flag=True, help="It only passes on what came from outside.")
def command(
    words: tuple[str, ...],
    plan: str | None,
    output: str | None,
    delivery: str,
    ask: bool,
    timeout: str | None,
    expires: str | None,
    key: str,
    untrusted: bool,
) -> None:
    """Send a message to an agent, or to several.

    It wakes an agent that sleeps. A message never grants anything: rights and budgets are changed with `plan patch`.
    TEXT `-` is read from standard input. Nobody gets it when one of the agents cannot.

    With --ask the answers go to stdout: exit 1 when an agent failed or cannot answer, 6 when nobody runs the plan. An
    agent whose task is over can be asked, too.
    """
    from planloop.cli.wait import seconds_of

    if len(words) == 1:
        raise Halt(Exit.USAGE, "an agent and a text are needed", 'plan send AGENT "what you want to say"')
    access = access_to(plan)
    text = sys.stdin.read() if words[-1] == "-" else words[-1]
    if not text.strip():
        raise Halt(Exit.USAGE, "the message is empty", 'plan send AGENT "what you want to say"')
    body: JsonObject = {"to": [pointing.address_of(word, "agent") for word in words[:-1]], "text": text}
    body |= {"delivery": delivery, "key": key, "untrusted": untrusted}
    if expires is not None:
        body["expires_s"] = seconds_of(expires)
    if ask:
        _ask(access, body, None if timeout is None else time.monotonic() + seconds_of(timeout), output)
    else:
        _send(access, body, output)


def _send(access: Access, body: JsonObject, output: str | None) -> None:
    answer = access.post("send", body)
    is_owned = access.is_owned()
    if output:
        printing.structured(answer | {"is_owned": is_owned}, output)
        return
    for one in answer["sent"]:
        if not one["is_new"]:
            click.echo(f"{one['to']} has it already; nothing was sent")
            continue
        click.echo(f"delivered to {one['to']} ({one['state'] or 'new'}), rev {answer['rev']}")
        if one["state"] == "ended":
            task = f"task/{one['to'].partition('/')[2]}"
            click.echo(f"its task is over: it reads this only if {task} begins again; --ask has it answered now")
    if not is_owned:
        click.echo("nobody runs the plan: it is read after plan apply")


def _ask(access: Access, body: JsonObject, until: float | None, output: str | None) -> None:
    from planloop.cli.chatting.asking import Question

    question = Question(access, body)
    late = ""
    try:
        for _ in question.events(until=until):
            pass
    except TimeoutError:
        late = ", ".join(str(one["to"]) for one in question.sent if one["to"] not in question.answers)
    answers = [question.answers[one["to"]] for one in question.sent if one["to"] in question.answers]
    if output:
        listed = [{"agent": one.agent, "text": one.text, "error": one.error} for one in answers]
        printing.structured({"rev": question.rev, "answers": listed, "late": late}, output)
    else:
        for one in answers:
            name = f"{one.agent}: " if len(question.sent) > 1 else ""
            click.echo(f"{name}{f'({one.error}) ' if one.error else ''}{one.text}")
    if late:
        raise Halt(Exit.TIMEOUT, f"no answer in time from {late}", "it was delivered; plan logs shows what comes of it")
    if any(one.error for one in answers):
        raise Halt(Exit.FAILED)
