"""Slash commands that change something: patch, approve, reject, dump and restore an agent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from planloop.cli.conversation.input_line import SlashCommand
from planloop.client import chat_events, references
from planloop.client.chat_target import ChatTarget, agent_name, choose_agent
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.gate_errors import refused_error
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.conflict import WAYS, conflict_from_json

# Commands of a conversation that change something: a field of the plan, and answers to what waits.


def patch_field(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Sets one field of the live plan."""
    if len(command.words) < 2:
        raise CommandError(ExitCode.USAGE, "/patch needs a path and a value", "/patch task/ui/goal 'a page'")
    path, value = command.words[0], " ".join(command.words[1:])
    document = room.access.object(f"plan/{room.plan}").spec
    op = references.parse_setting(document, references.named_field(path), references.parse_value(value))
    yield patch_outcome(
        room.access.post("patch", {"ops": [op.to_json()], "reason": f"said in a chat with {room.agent}"})
    )


def patch_outcome(verdict: JsonObject, done: str = "patched") -> str:
    """What the gate said, in a line. Raises CommandError when it refused."""
    match verdict["verdict"]:
        case "refused":
            raise refused_error(verdict)
        case "held":
            return f"held: {verdict['why']} · /approve {verdict['approval'].partition('/')[2]}"
        case _:
            return f"{done}, rev {verdict['rev']}" if verdict["changed"] else "the plan says so already"


def approve_pending(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Says yes."""
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
    """A ruling: how, whom it is about, and what both are told."""
    if not words or words[0] not in WAYS:
        spec = conflict_from_json(room.access.object(conflict).spec)
        said_of = "\n".join(
            f"/approve {conflict.replace('/', '-')} {how} {spec.usual(how).partition('/')[2]} [WORDS]   {said}"
            for how, said in spec.ways().items()
        )
        raise CommandError(ExitCode.USAGE, f"how does {conflict} go on?", said_of)
    about = words[1] if len(words) > 1 else ""
    body: JsonObject = {"conflict": conflict, "how": words[0], "for": about, "plan": " ".join(words[2:])}
    return f"{conflict}: {patch_outcome(room.access.post('rule', body), 'ruled')}"


def reject_pending(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Says no. Words that name nothing that waits are the reason."""
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
            raise CommandError(ExitCode.NOT_FOUND, "nothing waits for a yes", "")
        case [one]:
            return one.approval
        case _:
            lines = "\n".join(f"/approve {one.approval.partition('/')[2]}   {one.words}" for one in found)
            raise CommandError(ExitCode.USAGE, f"{len(found)} things wait", lines)


# Commands of a conversation that carry an agent: to a file where the person is, and out of one into the plan.

DUMP_USAGE: Final = "/dump FILE [AGENT]"
RESTORE_USAGE: Final = "/restore FILE [as NAME]"


def dump_agent(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Writes an agent to a new file."""
    if not 1 <= len(command.words) <= 2:
        raise CommandError(ExitCode.USAGE, "/dump needs a file", DUMP_USAGE)
    file = Path(command.words[0]).expanduser()
    agent = choose_agent(room.access.objects("agent"), command.words[1]) if command.words[1:] else room.agent
    answer = room.access.get(f"dump/{agent}")
    content = str(answer["text"]).encode()
    _write(file, content)
    parts = "".join(f"{each}, " for each in answer["parts"])
    yield f"{agent} is in {file}: {answer['turns']} turns, {parts}{len(content)} bytes · /restore {file}"


def _write(file: Path, content: bytes) -> None:
    """A new file, whole or not at all, that only its writer can read: a transcript is nobody else's."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(ExitCode.CONFLICT, f"{file} exists, and is left as it is", "take another name") from None
    except OSError as error:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{file} cannot be written: {error.strerror}", "take another place"
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise CommandError(
            ExitCode.FAILED, f"{file} cannot be written: {error.strerror}", "take another place"
        ) from None


def restore_agent(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Makes the agent in a file a child of the one that is talked with."""
    match command.words:
        case (path,):
            name = ""
        case (path, "as", name):
            pass
        case _:
            raise CommandError(ExitCode.USAGE, "/restore needs a file", RESTORE_USAGE)
    text = _read(Path(path).expanduser())
    answer = room.access.post("restore", {"under": room.agent, "text": text, "name": name})
    said = patch_outcome(answer, done="restored")
    agent = answer["agent"]
    parts = f", with {', '.join(answer['parts'])}" if answer["parts"] else ""
    yield f"{said}: {agent} begins where {answer['was'] or 'it'} was{parts} · /talkwith {agent_name(agent)}"


def _read(file: Path) -> str:
    try:
        if file.stat().st_size > limits.DUMP_BYTES_MAX:
            raise CommandError(
                ExitCode.INVALID, f"{file} is larger than any dump: {limits.DUMP_BYTES_MAX} bytes", RESTORE_USAGE
            )
        return file.read_text()
    except OSError as error:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{file} cannot be read: {error.strerror}", "/dump FILE writes one"
        ) from None
    except UnicodeDecodeError:
        raise CommandError(
            ExitCode.INVALID, f"{file} is no dump of an agent: it is no text", "/dump FILE writes one"
        ) from None
