"""`plan chat` and `plan send`."""

from __future__ import annotations

import sys
import time
from functools import partial

import click

from planloop.cli.options import client_of_plan, output_option, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.render import printer
from planloop.schemas.canonical_json import JsonObject

SEND_EXAMPLE = """
\b
Examples:
  plan send agent/frontend "use the new palette"
  plan send frontend "stop guessing, ask" --delivery interrupt
  plan send frontend backend "the API is frozen now"
  git diff | plan send reviewer - --untrusted
  plan send reviewer "is this safe to merge?" --ask --timeout 5m
"""


@click.command(epilog=SEND_EXAMPLE)
@click.argument("words", metavar="AGENT... TEXT", nargs=-1, required=True)
@plan_option
@output_option("json", "yaml")
@click.option(
    "--delivery",
    type=click.Choice(["queue", "steer", "interrupt"]),
    default="queue",
    show_default=True,
    help="When to deliver: when the agent is idle, after its current step, or now, stopping the step.",
)
@click.option("--ask", is_flag=True, help="Wait for the answer and print it.")
@click.option("--timeout", metavar="TIME", help="Stop waiting after this time, for example 90s or 10m: exit 9.")
@click.option("--expires", metavar="TIME", help="Drop the message if it is not read within this time.")
@click.option(
    "--key", metavar="KEY", default="", help="Idempotency key: a second message with the same key is not sent."
)
@click.option("--untrusted", is_flag=True, help="Mark the text as untrusted input.")
def send_command(
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
    """Send a message to one or more agents.

    The message wakes a sleeping agent. It never grants rights or budget; use `plan patch` for that. With TEXT `-` it is
    read from standard input. If one of the agents cannot receive it, it is sent to none.

    With --ask the answers go to stdout. Exit 1 if an agent failed or cannot answer, 6 if the plan is not running. You
    can also ask an agent whose task has ended.
    """
    from planloop.cli.wait import parse_seconds

    if len(words) == 1:
        raise CommandError(ExitCode.USAGE, "an agent and a text are required", 'plan send AGENT "your message"')
    access = client_of_plan(plan)
    text = sys.stdin.read() if words[-1] == "-" else words[-1]
    if not text.strip():
        raise CommandError(ExitCode.USAGE, "the message is empty", 'plan send AGENT "your message"')
    body: JsonObject = {"to": [references.resolve_address(word, "agent") for word in words[:-1]], "text": text}
    body |= {"delivery": delivery, "key": key, "untrusted": untrusted}
    if expires is not None:
        body["expires_s"] = parse_seconds(expires)
    if ask:
        _send_and_wait(access, body, None if timeout is None else time.monotonic() + parse_seconds(timeout), output)
    else:
        _send_message(access, body, output)


def _send_message(access: PlanClient, body: JsonObject, output: str | None) -> None:
    answer = access.post("send", body)
    is_owned = access.is_owned()
    if output:
        printer.print_structured(answer | {"is_owned": is_owned}, output)
        return
    for one in answer["sent"]:
        if not one["is_new"]:
            click.echo(f"{one['to']} already has this message; nothing was sent")
            continue
        click.echo(f"delivered to {one['to']} ({one['state'] or 'new'}), rev {answer['rev']}")
        if one["state"] == "ended":
            task = f"task/{one['to'].partition('/')[2]}"
            click.echo(f"its task has ended: it reads this only if {task} restarts. Use --ask for an answer now")
    if not is_owned:
        click.echo("the plan is not running: the agent reads the message after plan apply")


def _send_and_wait(access: PlanClient, body: JsonObject, until: float | None, output: str | None) -> None:
    from planloop.cli.conversation.chat_loop import AgentQuestion

    question = AgentQuestion(access, body)
    late = ""
    try:
        for _ in question.events(until=until):
            pass
    except TimeoutError:
        late = ", ".join(str(one["to"]) for one in question.sent if one["to"] not in question.answers)
    answers = [question.answers[one["to"]] for one in question.sent if one["to"] in question.answers]
    if output:
        listed = [{"agent": one.agent, "text": one.text, "error": one.error} for one in answers]
        printer.print_structured({"rev": question.rev, "answers": listed, "late": late}, output)
    else:
        for one in answers:
            name = f"{one.agent}: " if len(question.sent) > 1 else ""
            click.echo(f"{name}{f'({one.error}) ' if one.error else ''}{one.text}")
    if late:
        raise CommandError(
            ExitCode.TIMEOUT,
            f"timeout: no answer from {late}",
            "the message was delivered; plan logs shows the agent's work",
        )
    if any(one.error for one in answers):
        raise CommandError(ExitCode.FAILED)


CHAT_EXAMPLE = """
\b
Examples:
  plan chat                                 chat with the session's primary agent
  plan chat frontend
  plan chat container/sut                   chat with the agent that uses this container
  echo "how far are you?" | plan chat       one question, its answer on stdout
"""
HISTORY = "chat.history"


@click.command(epilog=CHAT_EXAMPLE)
@click.argument("agent", required=False, metavar="[AGENT]")
@plan_option
def chat_command(agent: str | None, plan: str | None) -> None:
    """Chat with an agent of a running plan.

    Each line is a question to the agent, which answers at its next turn, even if its task has ended. Meanwhile you see
    what it does, and approve or reject its requests. Lines that begin with / are commands and run immediately, even
    while you wait for an answer; /help lists them.
    Without AGENT you talk to the session's primary agent, at first the one nearest to the root. /talkwith moves the
    session, as agents do with meta and endo, and the conversation follows.
    /dump and /restore save and load an agent; use a tool server's prompt with /files.review language=python.

    Ctrl-C or /quit leaves; the plan keeps running. Without a terminal, each line of standard input is a question;
    answers go to stdout and the rest to stderr. Exit 1 if a question was not answered, 6 if the plan is not running.
    Each line waits for the answer to the previous one, except commands such as /approve while an approval is pending.
    """
    from planloop.cli.conversation import chat_loop, slash_commands, terminals

    access = client_of_plan(plan)
    is_live = sys.stdin.isatty() and sys.stdout.isatty()
    screen = (
        terminals.EditingTerminal(access.place.folder / HISTORY, partial(slash_commands.command_names, access))
        if is_live
        else None
    )
    conversation = chat_loop.start_chat(access, agent, screen or terminals.PipeTerminal())
    if screen is not None:
        screen.note(f"{conversation.room.agent} of {access.place.name} · /help · Ctrl-C leaves; the plan keeps running")
    try:
        conversation.run()
    except KeyboardInterrupt:
        click.echo(f"\nleft; {access.place.name} keeps running: plan chat returns, plan down stops it", err=True)
        raise CommandError(ExitCode.CANCELLED) from None
    finally:
        if screen is not None:
            screen.close()
    if conversation.failed and screen is None:
        raise CommandError(ExitCode.FAILED)
