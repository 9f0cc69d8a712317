"""Commands of a conversation that carry an agent: to a file where the person is, and out of one into the plan."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from planloop.app.exits import Exit, Halt
from planloop.cli.chatting.lines import Command
from planloop.cli.chatting.patching import outcome
from planloop.cli.chatting.room import Room, chosen, name_of
from planloop.schemas import limits

DUMP: Final = "/dump FILE [AGENT]"
RESTORE: Final = "/restore FILE [as NAME]"


def dump(room: Room, command: Command) -> Iterator[str]:
    """Writes an agent to a new file."""
    if not 1 <= len(command.words) <= 2:
        raise Halt(Exit.USAGE, "/dump needs a file", DUMP)
    file = Path(command.words[0]).expanduser()
    agent = chosen(room.access.objects("agent"), command.words[1]) if command.words[1:] else room.agent
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
        raise Halt(Exit.CONFLICT, f"{file} exists, and is left as it is", "take another name") from None
    except OSError as error:
        raise Halt(Exit.NOT_FOUND, f"{file} cannot be written: {error.strerror}", "take another place") from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
    except OSError as error:
        file.unlink(missing_ok=True)
        raise Halt(Exit.FAILED, f"{file} cannot be written: {error.strerror}", "take another place") from None


def restore(room: Room, command: Command) -> Iterator[str]:
    """Makes the agent in a file a child of the one that is talked with."""
    match command.words:
        case (path,):
            name = ""
        case (path, "as", name):
            pass
        case _:
            raise Halt(Exit.USAGE, "/restore needs a file", RESTORE)
    text = _read(Path(path).expanduser())
    answer = room.access.post("restore", {"under": room.agent, "text": text, "name": name})
    said = outcome(answer, done="restored")
    agent = answer["agent"]
    parts = f", with {', '.join(answer['parts'])}" if answer["parts"] else ""
    yield f"{said}: {agent} begins where {answer['was'] or 'it'} was{parts} · /talkwith {name_of(agent)}"


def _read(file: Path) -> str:
    try:
        if file.stat().st_size > limits.DUMP_BYTES_MAX:
            raise Halt(Exit.INVALID, f"{file} is larger than any dump: {limits.DUMP_BYTES_MAX} bytes", RESTORE)
        return file.read_text()
    except OSError as error:
        raise Halt(Exit.NOT_FOUND, f"{file} cannot be read: {error.strerror}", "/dump FILE writes one") from None
    except UnicodeDecodeError:
        raise Halt(Exit.INVALID, f"{file} is no dump of an agent: it is no text", "/dump FILE writes one") from None
