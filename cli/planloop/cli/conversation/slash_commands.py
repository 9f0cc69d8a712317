"""The slash commands of a conversation, with the prompts that MCP servers offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from planloop.cli.conversation import change_commands, inspect_commands
from planloop.cli.conversation.input_line import InputLine, SlashCommand
from planloop.client.chat_target import ChatTarget, agent_or_hook_agent
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.plan_sources import LIBRARY, FolderSources
from planloop.client.render.cells import one_line
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.mcp import full_tool_name

# Prompts that tool servers offer, as slash commands: `/files.review language=python`.
#
# What there is stands in the servers' statuses; the text is fetched by the owner when somebody wants it said.


@frozen
class OfferedPrompt:
    """A prompt of the server `server`; `arguments` are its names, each with whether it has to be given."""

    server: str
    name: str
    help: str
    arguments: Mapping[str, bool]

    @property
    def usage(self) -> str:
        """`/files.review language=… [style=…]`."""
        words = [f"{name}=…" if needed else f"[{name}=…]" for name, needed in self.arguments.items()]
        return " ".join((f"/{full_tool_name(self.server, self.name)}", *words))


def offered_prompts(access: PlanClient) -> dict[str, OfferedPrompt]:
    """What the servers of the plan were found to offer, by what stands after the slash."""
    found = [
        _read(one.address.partition("/")[2], raw)
        for one in access.objects("mcp")
        for raw in one.status.get("prompts") or ()
    ]
    return {full_tool_name(one.server, one.name): one for one in found}


def _read(server: str, raw: JsonObject) -> OfferedPrompt:
    arguments = {str(each["name"]): bool(each["required"]) for each in raw["arguments"]}
    return OfferedPrompt(server, raw["name"], raw["description"] or "A prompt of this server.", arguments)


def offered_text(room: ChatTarget, offered: OfferedPrompt, command: SlashCommand) -> str:
    """The prompt's text with the arguments of the command. Raises CommandError."""
    given = _arguments(offered, command)
    body: JsonObject = {"server": offered.server, "name": offered.name, "arguments": given, "agent": room.agent}
    return str(room.access.post("prompt", body)["text"])


def _arguments(offered: OfferedPrompt, command: SlashCommand) -> JsonObject:
    pairs = [word.partition("=") for word in command.words]
    for name, equals, _ in pairs:
        if not equals or name not in offered.arguments:
            raise CommandError(ExitCode.USAGE, f"`{name}` is no argument of /{command.name}", offered.usage)
    given: JsonObject = {name: value for name, _, value in pairs}
    missing = [name for name, needed in offered.arguments.items() if needed and name not in given]
    if missing:
        raise CommandError(ExitCode.USAGE, f"/{command.name} needs {', '.join(missing)}", offered.usage)
    return given


# The slash commands of a conversation: each a name, a line of help, and what it answers in lines.
#
# Commands look at the plan or change it by the same API as the `plan` command does, so that every face of the chat has
# the same ones. Prompts of the library and of tool servers are commands, too: they become the text that the agent is
# told.

PROMPTS: Final = "prompts"

Action: TypeAlias = Callable[[ChatTarget, SlashCommand], Iterator[str]]


class ChatLeft(Exception):
    """The person is done."""


@frozen
class KnownCommands:
    """A command: how it is written, one line of help, and what it does."""

    usage: str
    help: str
    action: Action


def _help(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    del command
    width = max(len(one.usage) for one in COMMANDS.values())
    yield from (f"{one.usage:<{width}}  {one.help}" for one in COMMANDS.values())
    for name in prompt_names():
        yield f"{f'/{name} TEXT':<{width}}  Say TEXT under the library's prompt `{name}`."
    for one in offered_prompts(room.access).values():
        yield f"{one.usage:<{width}}  {one_line(one.help)}"


def _quit(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    del room, command
    raise ChatLeft


def _talkwith(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    (name,) = _words(command, 1, "/talkwith AGENT|HOOK")
    agent = agent_or_hook_agent(room.access.objects("agent"), room.access.objects("hook"), name, room.agent)
    room.access.post("session", {"to": agent})
    room.agent, room.is_following = agent, True
    yield f"now with {agent}"


def _words(command: SlashCommand, count: int, usage: str) -> Sequence[str]:
    if len(command.words) < count:
        raise CommandError(ExitCode.USAGE, f"/{command.name} needs more words", usage)
    return command.words[:count]


COMMANDS: Final[Mapping[str, KnownCommands]] = {
    "agents": KnownCommands("/agents", "Who there is, and what each is doing.", inspect_commands.show_agents),
    "talkwith": KnownCommands(
        "/talkwith AGENT|HOOK", "Move the session to another agent, or to the one behind a hook.", _talkwith
    ),
    "plan": KnownCommands("/plan", "The tree of tasks with their states.", inspect_commands.show_plan),
    "diff": KnownCommands("/diff", "What applying the plan file would do.", inspect_commands.show_diff),
    "patch": KnownCommands(
        "/patch PATH VALUE", "Change a field: /patch task/ui/goal 'a page'.", change_commands.patch_field
    ),
    "why": KnownCommands("/why PATH", "Who set a field, when and why.", inspect_commands.show_why),
    "approve": KnownCommands(
        "/approve [ID]", "Say yes to what waits; to the only thing, without an ID.", change_commands.approve_pending
    ),
    "reject": KnownCommands("/reject [ID] [REASON]", "Say no to it.", change_commands.reject_pending),
    "dump": KnownCommands(
        change_commands.DUMP_USAGE, "Write this agent, or another, to a new file.", change_commands.dump_agent
    ),
    "restore": KnownCommands(
        change_commands.RESTORE_USAGE, "Bring one back as a child of this agent.", change_commands.restore_agent
    ),
    "logs": KnownCommands("/logs", "The last turns of this agent.", inspect_commands.show_logs),
    "budget": KnownCommands("/budget", "What is spent and left, of this agent's task.", inspect_commands.show_budget),
    "hooks": KnownCommands("/hooks", "The hooks of this agent, and who is behind them.", inspect_commands.show_hooks),
    "help": KnownCommands("/help", "These lines.", _help),
    "quit": KnownCommands("/quit", "Leave; the plan goes on.", _quit),
}


def command_names(access: PlanClient) -> list[str]:
    """All that may stand after a slash."""
    return [*COMMANDS, *prompt_names(), *offered_prompts(access)]


def prompt_names() -> list[str]:
    """The prompts of the library by name."""
    return list(FolderSources(Path()).names(PROMPTS))


def is_action(line: InputLine) -> bool:
    """Whether it is done without asking the agent anything."""
    return isinstance(line, SlashCommand) and line.name in COMMANDS


def fill_prompt(room: ChatTarget, command: SlashCommand) -> str | None:
    """What the agent is told by a command that is a prompt; None for one that is an action. Raises CommandError."""
    if command.name in COMMANDS:
        return None
    if command.name not in prompt_names():
        return offered_text(room, offered_prompts(room.access)[command.name], command)
    if not command.rest:
        raise CommandError(ExitCode.USAGE, f"/{command.name} needs a text", f"/{command.name} what it is about")
    text = FolderSources(Path()).read(f"{LIBRARY}{PROMPTS}/{command.name}.md").decode()
    return f"{text.strip()}\n\n{command.rest}"


def run_command(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """The lines that an action answers. Raises CommandError for what cannot be done, ChatLeft to go."""
    yield from COMMANDS[command.name].action(room, command)
