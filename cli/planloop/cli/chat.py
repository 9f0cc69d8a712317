"""`plan chat`."""

from __future__ import annotations

import sys
from functools import partial

import click

from planloop.app.exits import Exit, Halt
from planloop.cli.options import access_to, plan_option

EXAMPLE = """
\b
Examples:
  plan chat                                 with the session's primary agent
  plan chat frontend
  plan chat container/sut                   with the agent that works with it
  echo "how far are you?" | plan chat       one question, its answer on stdout
"""
HISTORY = "chat.history"


@click.command(epilog=EXAMPLE)
@click.argument("agent", required=False, metavar="[AGENT]")
@plan_option
def command(agent: str | None, plan: str | None) -> None:
    """Talk with an agent of a running plan.

    What you write is a question to the agent: it answers when it comes to it, also when its task is over. Meanwhile you
    see what it does, and are asked for what needs your yes. Lines that begin with / are commands, done at once also
    while an answer is out; /help lists them.
    Without AGENT it is the session's primary agent, at first the one nearest to the root. /talkwith moves the session,
    as agents do with meta and endo, and the conversation follows it.
    /dump and /restore carry an agent in a file; prompts of tool servers are said as in /files.review language=python.

    Ctrl-C or /quit leaves; everything goes on. Without a terminal each line of standard input is a question, answers go
    to stdout and the rest to stderr: exit 1 when one was not answered, 6 when nobody runs the plan. A line waits for
    the answer to the one before it, but for commands such as /approve while something waits for a yes.
    """
    from planloop.cli.chatting import commands, talking, terminals

    access = access_to(plan)
    is_live = sys.stdin.isatty() and sys.stdout.isatty()
    screen = terminals.Screen(access.place.folder / HISTORY, partial(commands.names, access)) if is_live else None
    conversation = talking.begin(access, agent, screen or terminals.Pipe())
    if screen is not None:
        screen.note(f"{conversation.room.agent} of {access.place.name} · /help · Ctrl-C leaves, and everything goes on")
    try:
        conversation.run()
    except KeyboardInterrupt:
        click.echo(f"\nleft; {access.place.name} goes on: plan chat comes back, plan down stops it", err=True)
        raise Halt(Exit.CANCELLED) from None
    finally:
        if screen is not None:
            screen.close()
    if conversation.failed and screen is None:
        raise Halt(Exit.FAILED)
