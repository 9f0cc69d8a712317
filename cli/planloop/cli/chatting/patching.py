"""Commands of a conversation that change something: a field of the plan, and answers to what waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planloop.app import pointing
from planloop.app.exits import Exit, Halt
from planloop.app.verdicts import refusal
from planloop.cli.chatting import listening
from planloop.cli.chatting.lines import Command
from planloop.cli.chatting.room import Room
from planloop.schemas.conflict import WAYS, conflict_from_json
from planloop.schemas.encoding import JsonObject


def patch(room: Room, command: Command) -> Iterator[str]:
    """Sets one field of the live plan."""
    if len(command.words) < 2:
        raise Halt(Exit.USAGE, "/patch needs a path and a value", "/patch task/ui/goal 'a page'")
    path, value = command.words[0], " ".join(command.words[1:])
    document = room.access.object(f"plan/{room.plan}").spec
    op = pointing.setting(document, pointing.field_named(path), pointing.value_of(value))
    yield outcome(room.access.post("patch", {"ops": [op.to_json()], "reason": f"said in a chat with {room.agent}"}))


def outcome(verdict: JsonObject, done: str = "patched") -> str:
    """What the gate said, in a line. Raises Halt when it refused."""
    match verdict["verdict"]:
        case "refused":
            raise refusal(verdict)
        case "held":
            return f"held: {verdict['why']} · /approve {verdict['approval'].partition('/')[2]}"
        case _:
            return f"{done}, rev {verdict['rev']}" if verdict["changed"] else "the plan says so already"


def approve(room: Room, command: Command) -> Iterator[str]:
    """Says yes."""
    address = _waiting(room, command.words[0] if command.words else None)
    body: JsonObject = {"address": address, "reason": " ".join(command.words[1:])}
    spec = room.access.object(address).spec
    if spec["kind"] == "conflict":
        yield _ruled(room, str(spec["what"]["conflict"]), command.words[1:])
        return
    if spec["kind"] == "input":
        body = {"address": address, "reason": "", "content": pointing.answer_of(command.words[1:])}
    answer = room.access.post("approve", body)
    if answer["verdict"] == "refused":
        raise refusal(answer)
    yield f"{address} approved"


def _ruled(room: Room, conflict: str, words: Sequence[str]) -> str:
    """A ruling: how, whom it is about, and what both are told."""
    if not words or words[0] not in WAYS:
        spec = conflict_from_json(room.access.object(conflict).spec)
        said_of = "\n".join(
            f"/approve {conflict.replace('/', '-')} {how} {spec.usual(how).partition('/')[2]} [WORDS]   {said}"
            for how, said in spec.ways().items()
        )
        raise Halt(Exit.USAGE, f"how does {conflict} go on?", said_of)
    about = words[1] if len(words) > 1 else ""
    body: JsonObject = {"conflict": conflict, "how": words[0], "for": about, "plan": " ".join(words[2:])}
    return f"{conflict}: {outcome(room.access.post('rule', body), 'ruled')}"


def reject(room: Room, command: Command) -> Iterator[str]:
    """Says no. Words that name nothing that waits are the reason."""
    known = [one.approval for one in listening.waiting(room.access.objects("approval"))]
    first = command.words[0] if command.words else ""
    is_named = f"approval/{first.removeprefix('approval/')}" in known
    address = _waiting(room, first if is_named else None)
    reason = " ".join(command.words[1:] if is_named else command.words)
    room.access.post("reject", {"address": address, "reason": reason})
    yield f"{address} rejected"


def _waiting(room: Room, wanted: str | None) -> str:
    """The approval meant: the one named, else the only one."""
    if wanted is not None:
        return f"approval/{wanted.removeprefix('approval/')}"
    found = listening.waiting(room.access.objects("approval"))
    match found:
        case []:
            raise Halt(Exit.NOT_FOUND, "nothing waits for a yes", "")
        case [one]:
            return one.approval
        case _:
            lines = "\n".join(f"/approve {one.approval.partition('/')[2]}   {one.words}" for one in found)
            raise Halt(Exit.USAGE, f"{len(found)} things wait", lines)
