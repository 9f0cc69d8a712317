"""Prompts that tool servers offer, as slash commands: `/files.review language=python`.

What there is stands in the servers' statuses; the text is fetched by the owner when somebody wants it said.
"""

from __future__ import annotations

from collections.abc import Mapping

from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli.chatting.lines import Command
from planloop.cli.chatting.room import Room
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.mcp import full_name


@frozen
class Offered:
    """A prompt of the server `server`; `arguments` are its names, each with whether it has to be given."""

    server: str
    name: str
    help: str
    arguments: Mapping[str, bool]

    @property
    def usage(self) -> str:
        """`/files.review language=… [style=…]`."""
        words = [f"{name}=…" if needed else f"[{name}=…]" for name, needed in self.arguments.items()]
        return " ".join((f"/{full_name(self.server, self.name)}", *words))


def prompts(access: Access) -> dict[str, Offered]:
    """What the servers of the plan were found to offer, by what stands after the slash."""
    found = [
        _read(one.address.partition("/")[2], raw)
        for one in access.objects("mcp")
        for raw in one.status.get("prompts") or ()
    ]
    return {full_name(one.server, one.name): one for one in found}


def _read(server: str, raw: JsonObject) -> Offered:
    arguments = {str(each["name"]): bool(each["required"]) for each in raw["arguments"]}
    return Offered(server, raw["name"], raw["description"] or "A prompt of this server.", arguments)


def text_of(room: Room, offered: Offered, command: Command) -> str:
    """The prompt's text with the arguments of the command. Raises Halt."""
    given = _arguments(offered, command)
    body: JsonObject = {"server": offered.server, "name": offered.name, "arguments": given, "agent": room.agent}
    return str(room.access.post("prompt", body)["text"])


def _arguments(offered: Offered, command: Command) -> JsonObject:
    pairs = [word.partition("=") for word in command.words]
    for name, equals, _ in pairs:
        if not equals or name not in offered.arguments:
            raise Halt(Exit.USAGE, f"`{name}` is no argument of /{command.name}", offered.usage)
    given: JsonObject = {name: value for name, _, value in pairs}
    missing = [name for name, needed in offered.arguments.items() if needed and name not in given]
    if missing:
        raise Halt(Exit.USAGE, f"/{command.name} needs {', '.join(missing)}", offered.usage)
    return given
