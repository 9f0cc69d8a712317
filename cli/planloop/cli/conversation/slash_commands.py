"""Slash commands of a conversation: parse a line, show the plan, change it, and fill in prompts of tool servers.

They use the same API as the `plan` command, so every kind of terminal has the same ones. A prompt of the library or a
tool server is a command too: it becomes the message that the agent receives.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from planloop.cli import explain
from planloop.client import chat_events, references
from planloop.client.chat_target import ChatTarget, agent_name, agent_or_hook_agent, choose_agent
from planloop.client.error_report import refused_error
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import read_records
from planloop.client.plan_sources import LIBRARY, FolderSources
from planloop.client.render import differences, object_tables, task_tree, transcripts
from planloop.client.render.budgets import Costs
from planloop.client.render.tables import one_line
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.conflict import WAYS, conflict_from_json
from planloop.schemas.objects.hook import is_hook_agent
from planloop.schemas.objects.mcp import full_tool_name

SLASH = "/"


@frozen
class MessageLine:
    """Text for the agent."""

    text: str


@frozen
class SlashCommand:
    """`/name words`; `rest` is what follows the name, as it was written."""

    name: str
    words: tuple[str, ...]
    rest: str


@frozen
class InvalidLine:
    """A command that there is not; `near` is the one that may have been meant, empty for none."""

    name: str
    near: str


@frozen
class EmptyLine:
    """An empty line."""


InputLine: TypeAlias = MessageLine | SlashCommand | InvalidLine | EmptyLine


def parse_line(text: str, known: Collection[str]) -> InputLine:
    """What `text` is where `known` are the names of commands and prompts. `//x` says `/x` to the agent."""
    text = text.strip()
    if not text:
        return EmptyLine()
    if not text.startswith(SLASH) or text.startswith(SLASH * 2):
        return MessageLine(text.removeprefix(SLASH) if text.startswith(SLASH * 2) else text)
    name, _, rest = text[1:].partition(" ")
    if name in known:
        return SlashCommand(name, _split_words(rest), rest.strip())
    return InvalidLine(name, next(iter(difflib.get_close_matches(name, known, n=1)), ""))


def _split_words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:  # A quote that is not closed: then quotes mean nothing.
        return tuple(text.split())


TURNS_SHOWN = 5


def show_agents(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """A line for each agent; a star at the one that is talked with."""
    del command
    for one in room.access.objects("agent"):
        if is_hook_agent(one.address) and one.address != room.agent:
            continue  # In /hooks.
        mark = "*" if one.address == room.agent else " "
        name, state = agent_name(one.address) or ".", object_tables.state_of(one)
        yield f"{mark} {name:<20} {state:<8} {object_tables.state_reason(one)}".rstrip()


def show_plan(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """The tree of tasks."""
    from planloop.client import process

    del command
    tasks = {one.address: one for one in room.access.objects("task")}
    root = tasks.get("task/.")
    if root is not None:
        yield f"{room.plan}  {object_tables.state_of(root)}  {object_tables.state_reason(root)}".rstrip()
    yield from task_tree.tree_lines(task_tree.tree_rows(tasks, now=process.now()), width=None, plain=False)


def show_diff(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Show the changes that applying the plan file would make."""
    from planloop.client import plan_file, process
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.server.payloads import save_to_json

    del command
    file = room.access.place.file
    if file is None:
        raise CommandError(ExitCode.NOT_FOUND, "the plan file is not known", "plan diff FILE")
    read = plan_file.read_plan(file)
    if read.errors:
        yield from plan_file.fault_text(read, color=False).splitlines()
        return
    save = FileSave(file.name, read.content, read.document)
    found = room.access.post("diff", save_to_json(save))["differences"]
    text = differences.differences_text(found, now=process.now(), width=None) or differences.unchanged_text(found)
    yield from (text or f"{file.name} already matches the live plan").splitlines()


def show_why(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Who set a field."""
    if not command.words:
        raise CommandError(ExitCode.USAGE, "/why requires the path of a field", "/why task/ui/goal")
    answer = room.access.get("why", at=json_pointer.render_pointer(references.named_field(command.words[0])))
    yield from explain.value_origin(answer).splitlines()


def show_logs(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """The last turns of the agent."""
    del command
    yield from transcripts.last_turns(read_records(room.access), room.agent, TURNS_SHOWN) or ["nothing yet"]


def show_budget(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """What the agent's task may use, has used and has left."""
    del command
    task = room.access.object(f"task/{room.agent.partition('/')[2]}")
    costs = Costs(room.access.objects())
    lines = [costs.line(task), costs.rest(task)]
    yield from [line for line in lines if line] or ["no limits, and nothing used yet"]


def show_hooks(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """List the hooks of the agent: their points, and what answers them."""
    del command
    found = [one for one in room.access.objects("hook") if one.spec.get("watches") == room.agent]
    if not found:
        yield f"no hooks watch {room.agent}"
    for one in found:
        yield f"  {one.spec['name']:<20} {one.state or 'active':<8} {_hook_words(one.spec)}".rstrip()


def _hook_words(spec: JsonObject) -> str:
    """`before-call write(*) · ~careful`."""
    mind = spec["mind"]
    behind = agent_name(str(mind["address"])) if mind["kind"] == "agent" else str(mind["kind"])
    asked = " ".join((*spec["on"], *((spec["match"],) if spec["match"] else ())))
    return f"{asked} · {behind or '.'}"


def patch_field(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Sets one field of the live plan."""
    if len(command.words) < 2:
        raise CommandError(ExitCode.USAGE, "/patch requires a path and a value", "/patch task/ui/goal 'a page'")
    path, value = command.words[0], " ".join(command.words[1:])
    document = room.access.object(f"plan/{room.plan}").spec
    op = references.parse_setting(document, references.named_field(path), references.parse_value(value))
    yield patch_outcome(
        room.access.post("patch", {"ops": [op.to_json()], "reason": f"said in a chat with {room.agent}"})
    )


def patch_outcome(verdict: JsonObject, done: str = "patched") -> str:
    """Return the gate's decision in one line. Raises CommandError if it refused."""
    match verdict["verdict"]:
        case "refused":
            raise refused_error(verdict)
        case "held":
            return f"held for approval: {verdict['why']} · /approve {verdict['approval'].partition('/')[2]}"
        case _:
            return f"{done}, rev {verdict['rev']}" if verdict["changed"] else "nothing to change"


def approve_pending(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Approve a pending action."""
    address = _waiting(room, command.words[0] if command.words else None)
    body: JsonObject = {"address": address, "reason": " ".join(command.words[1:])}
    spec = room.access.object(address).spec
    if spec["kind"] == "conflict":
        yield _ruled(room, str(spec["what"]["conflict"]), command.words[1:])
        return
    if spec["kind"] == "input":
        body = {"address": address, "reason": "", "content": references.parse_answer(command.words[1:])}
    answer = room.access.post("approve", body)
    if answer["verdict"] == "refused":
        raise refused_error(answer)
    yield f"{address} approved"


def _ruled(room: ChatTarget, conflict: str, words: Sequence[str]) -> str:
    """Resolve a conflict: the way, the agent that it is about, and the message to both."""
    if not words or words[0] not in WAYS:
        spec = conflict_from_json(room.access.object(conflict).spec)
        said_of = "\n".join(
            f"/approve {conflict.replace('/', '-')} {how} {spec.usual(how).partition('/')[2]} [WORDS]   {said}"
            for how, said in spec.ways().items()
        )
        raise CommandError(ExitCode.USAGE, f"no resolution given for {conflict}", said_of)
    about = words[1] if len(words) > 1 else ""
    body: JsonObject = {"conflict": conflict, "how": words[0], "for": about, "plan": " ".join(words[2:])}
    return f"{conflict}: {patch_outcome(room.access.post('rule', body), 'decided')}"


def reject_pending(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Reject a pending action. Words that do not name one are the reason."""
    known = [one.approval for one in chat_events.pending_approvals(room.access.objects("approval"))]
    first = command.words[0] if command.words else ""
    is_named = f"approval/{first.removeprefix('approval/')}" in known
    address = _waiting(room, first if is_named else None)
    reason = " ".join(command.words[1:] if is_named else command.words)
    room.access.post("reject", {"address": address, "reason": reason})
    yield f"{address} rejected"


def _waiting(room: ChatTarget, wanted: str | None) -> str:
    """The approval meant: the one named, else the only one."""
    if wanted is not None:
        return f"approval/{wanted.removeprefix('approval/')}"
    found = chat_events.pending_approvals(room.access.objects("approval"))
    match found:
        case []:
            raise CommandError(ExitCode.NOT_FOUND, "no pending approvals", "")
        case [one]:
            return one.approval
        case _:
            lines = "\n".join(f"/approve {one.approval.partition('/')[2]}   {one.words}" for one in found)
            raise CommandError(ExitCode.USAGE, f"{len(found)} pending approvals: give an ID", lines)


DUMP_USAGE: Final = "/dump FILE [AGENT]"
RESTORE_USAGE: Final = "/restore FILE [as NAME]"


def dump_agent(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Writes an agent to a new file."""
    if not 1 <= len(command.words) <= 2:
        raise CommandError(ExitCode.USAGE, "/dump requires a file", DUMP_USAGE)
    file = Path(command.words[0]).expanduser()
    agent = choose_agent(room.access.objects("agent"), command.words[1]) if command.words[1:] else room.agent
    answer = room.access.get(f"dump/{agent}")
    content = str(answer["text"]).encode()
    _write(file, content)
    parts = "".join(f"{each}, " for each in answer["parts"])
    yield f"{agent} saved to {file}: {answer['turns']} turns, {parts}{len(content)} bytes · /restore {file}"


def _write(file: Path, content: bytes) -> None:
    """Write a new file atomically, with mode 0600, because a transcript is private."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(ExitCode.CONFLICT, f"{file} already exists", "choose another name") from None
    except OSError as error:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{file} cannot be written: {error.strerror}", "choose another path"
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise CommandError(
            ExitCode.FAILED, f"{file} cannot be written: {error.strerror}", "choose another path"
        ) from None


def restore_agent(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Makes the agent in a file a child of the one that is talked with."""
    match command.words:
        case (path,):
            name = ""
        case (path, "as", name):
            pass
        case _:
            raise CommandError(ExitCode.USAGE, "/restore requires a file", RESTORE_USAGE)
    text = _read_file(Path(path).expanduser())
    answer = room.access.post("restore", {"under": room.agent, "text": text, "name": name})
    said = patch_outcome(answer, done="restored")
    agent = answer["agent"]
    parts = f", with {', '.join(answer['parts'])}" if answer["parts"] else ""
    yield f"{said}: {agent} continues from {answer['was'] or 'the dump'}{parts} · /talkwith {agent_name(agent)}"


def _read_file(file: Path) -> str:
    try:
        if file.stat().st_size > limits.DUMP_BYTES_MAX:
            raise CommandError(
                ExitCode.INVALID,
                f"{file} is too large for a dump: the limit is {limits.DUMP_BYTES_MAX} bytes",
                RESTORE_USAGE,
            )
        return file.read_text()
    except OSError as error:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{file} cannot be read: {error.strerror}", "/dump FILE writes one"
        ) from None
    except UnicodeDecodeError:
        raise CommandError(
            ExitCode.INVALID, f"{file} is not a dump of an agent: it is not text", "/dump FILE writes one"
        ) from None


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
    """Return the prompts that the tool servers of the plan offer, by command name."""
    found = [
        _offered_prompt(one.address.partition("/")[2], raw)
        for one in access.objects("mcp")
        for raw in one.status.get("prompts") or ()
    ]
    return {full_tool_name(one.server, one.name): one for one in found}


def _offered_prompt(server: str, raw: JsonObject) -> OfferedPrompt:
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
            raise CommandError(ExitCode.USAGE, f"`{name}` is not an argument of /{command.name}", offered.usage)
    given: JsonObject = {name: value for name, _, value in pairs}
    missing = [name for name, needed in offered.arguments.items() if needed and name not in given]
    if missing:
        raise CommandError(ExitCode.USAGE, f"/{command.name} requires {', '.join(missing)}", offered.usage)
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
        yield f"{f'/{name} TEXT':<{width}}  Send TEXT with the library's prompt `{name}`."
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
    yield f"now talking to {agent}"


def _words(command: SlashCommand, count: int, usage: str) -> Sequence[str]:
    if len(command.words) < count:
        raise CommandError(ExitCode.USAGE, f"/{command.name} has missing arguments", usage)
    return command.words[:count]


COMMANDS: Final[Mapping[str, KnownCommands]] = {
    "agents": KnownCommands("/agents", "List the agents and what they are doing.", show_agents),
    "talkwith": KnownCommands("/talkwith AGENT|HOOK", "Talk to another agent, or to the agent of a hook.", _talkwith),
    "plan": KnownCommands("/plan", "Show the tree of tasks with their states.", show_plan),
    "diff": KnownCommands("/diff", "Show the changes that applying the plan file would make.", show_diff),
    "patch": KnownCommands("/patch PATH VALUE", "Change a field: /patch task/ui/goal 'a page'.", patch_field),
    "why": KnownCommands("/why PATH", "Show who set a field, when and why.", show_why),
    "approve": KnownCommands(
        "/approve [ID]", "Approve a pending action; the only one, without an ID.", approve_pending
    ),
    "reject": KnownCommands("/reject [ID] [REASON]", "Reject a pending action.", reject_pending),
    "dump": KnownCommands(DUMP_USAGE, "Save this or another agent to a new file.", dump_agent),
    "restore": KnownCommands(RESTORE_USAGE, "Load a saved agent as a child of this agent.", restore_agent),
    "logs": KnownCommands("/logs", "Show the last turns of this agent.", show_logs),
    "budget": KnownCommands("/budget", "Show what this agent's task has spent and has left.", show_budget),
    "hooks": KnownCommands("/hooks", "List the hooks of this agent, and what answers them.", show_hooks),
    "help": KnownCommands("/help", "Show this help.", _help),
    "quit": KnownCommands("/quit", "Leave; the plan keeps running.", _quit),
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
    """Return the message of a command that is a prompt; None for an action. Raises CommandError."""
    if command.name in COMMANDS:
        return None
    if command.name not in prompt_names():
        return offered_text(room, offered_prompts(room.access)[command.name], command)
    if not command.rest:
        raise CommandError(ExitCode.USAGE, f"/{command.name} requires a text", f"/{command.name} TEXT")
    text = FolderSources(Path()).read(f"{LIBRARY}{PROMPTS}/{command.name}.md").decode()
    return f"{text.strip()}\n\n{command.rest}"


def run_command(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """The lines that an action answers. Raises CommandError for what cannot be done, ChatLeft to go."""
    yield from COMMANDS[command.name].action(room, command)
