"""The slash commands of a conversation: each a name, a line of help, and what it answers in lines.

Commands look at the plan or change it by the same API as the `plan` command does, so that every face of the chat has
the same ones. Prompts of the library and of tool servers are commands, too: they become the text that the agent is
told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.app.sources import LIBRARY, FolderSources
from planloop.cli.chatting import carrying, looking, offered, patching
from planloop.cli.chatting.lines import Command, Line
from planloop.cli.chatting.room import Room, talked_with
from planloop.cli.rendering.objects import one_line
from planloop.schemas.frozen import frozen

PROMPTS: Final = "prompts"

Action: TypeAlias = Callable[[Room, Command], Iterator[str]]


class Leave(Exception):
    """The person is done."""


@frozen
class Known:
    """A command: how it is written, one line of help, and what it does."""

    usage: str
    help: str
    action: Action


def _help(room: Room, command: Command) -> Iterator[str]:
    del command
    width = max(len(one.usage) for one in COMMANDS.values())
    yield from (f"{one.usage:<{width}}  {one.help}" for one in COMMANDS.values())
    for name in prompts():
        yield f"{f'/{name} TEXT':<{width}}  Say TEXT under the library's prompt `{name}`."
    for one in offered.prompts(room.access).values():
        yield f"{one.usage:<{width}}  {one_line(one.help)}"


def _quit(room: Room, command: Command) -> Iterator[str]:
    del room, command
    raise Leave


def _talkwith(room: Room, command: Command) -> Iterator[str]:
    (name,) = _words(command, 1, "/talkwith AGENT|HOOK")
    agent = talked_with(room.access.objects("agent"), room.access.objects("hook"), name, room.agent)
    room.access.post("session", {"to": agent})
    room.agent, room.is_following = agent, True
    yield f"now with {agent}"


def _words(command: Command, count: int, usage: str) -> Sequence[str]:
    if len(command.words) < count:
        raise Halt(Exit.USAGE, f"/{command.name} needs more words", usage)
    return command.words[:count]


COMMANDS: Final[Mapping[str, Known]] = {
    "agents": Known("/agents", "Who there is, and what each is doing.", looking.agents),
    "talkwith": Known(
        "/talkwith AGENT|HOOK", "Move the session to another agent, or to the one behind a hook.", _talkwith
    ),
    "plan": Known("/plan", "The tree of tasks with their states.", looking.plan),
    "diff": Known("/diff", "What applying the plan file would do.", looking.diff),
    "patch": Known("/patch PATH VALUE", "Change a field: /patch task/ui/goal 'a page'.", patching.patch),
    "why": Known("/why PATH", "Who set a field, when and why.", looking.why),
    "approve": Known("/approve [ID]", "Say yes to what waits; to the only thing, without an ID.", patching.approve),
    "reject": Known("/reject [ID] [REASON]", "Say no to it.", patching.reject),
    "dump": Known(carrying.DUMP, "Write this agent, or another, to a new file.", carrying.dump),
    "restore": Known(carrying.RESTORE, "Bring one back as a child of this agent.", carrying.restore),
    "logs": Known("/logs", "The last turns of this agent.", looking.logs),
    "budget": Known("/budget", "What is spent and left, of this agent's task.", looking.budget),
    "hooks": Known("/hooks", "The hooks of this agent, and who is behind them.", looking.hooks),
    "help": Known("/help", "These lines.", _help),
    "quit": Known("/quit", "Leave; the plan goes on.", _quit),
}


def names(access: Access) -> list[str]:
    """All that may stand after a slash."""
    return [*COMMANDS, *prompts(), *offered.prompts(access)]


def prompts() -> list[str]:
    """The prompts of the library by name."""
    return list(FolderSources(Path()).names(PROMPTS))


def is_action(line: Line) -> bool:
    """Whether it is done without asking the agent anything."""
    return isinstance(line, Command) and line.name in COMMANDS


def filled(room: Room, command: Command) -> str | None:
    """What the agent is told by a command that is a prompt; None for one that is an action. Raises Halt."""
    if command.name in COMMANDS:
        return None
    if command.name not in prompts():
        return offered.text_of(room, offered.prompts(room.access)[command.name], command)
    if not command.rest:
        raise Halt(Exit.USAGE, f"/{command.name} needs a text", f"/{command.name} what it is about")
    text = FolderSources(Path()).read(f"{LIBRARY}{PROMPTS}/{command.name}.md").decode()
    return f"{text.strip()}\n\n{command.rest}"


def perform(room: Room, command: Command) -> Iterator[str]:
    """The lines that an action answers. Raises Halt for what cannot be done, Leave to go."""
    yield from COMMANDS[command.name].action(room, command)
