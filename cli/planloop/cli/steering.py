"""What pause, resume and cancel ask of the plan, and how `delete` takes tasks and containers out of it."""

from __future__ import annotations

from collections.abc import Sequence

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.exits import Exit, Halt
from planloop.cli import patching
from planloop.cli.options import access_to
from planloop.cli.patch import document_of
from planloop.schemas import pointer
from planloop.schemas.container import is_left
from planloop.schemas.encoding import JsonObject
from planloop.server.steering import path_of


def steer(what: Sequence[str], plan: str | None, do: str, *, reason: str, dry_run: bool) -> None:
    """Pauses, resumes or cancels each of `what`. Raises Halt for a task that there is not."""
    access = access_to(plan)
    named = [pointing.address_of(word) for word in what]
    verdict = access.post("steer", {"do": do, "what": named, "reason": reason, "dry_run": dry_run})
    patching.say(verdict, access.place.name)


def _is_container(address: str) -> bool:
    return address.startswith("container/")


def remove(what: Sequence[str], plan: str | None, *, reason: str, dry_run: bool) -> None:
    """Takes tasks out of the plan with all that is below them, and containers; one that was only kept is thrown away.

    Raises Halt for what there is not.
    """
    access = access_to(plan)
    kept, document = kept_of(access, what), document_of(access)
    paths = [_removable(document, pointing.address_of(word)) for word in what if word not in kept]
    if kept:
        from planloop.cli import discarding

        discarding.discard(access, [pointing.address_of(word) for word in kept], dry_run=dry_run)
        if not paths:
            return
    if () in paths:
        hint = "plan cancel . stops all of it · plan down ends its process"
        raise Halt(Exit.USAGE, "the root task is the plan itself and cannot be removed from it", hint)
    ops = [{"op": "remove", "path": pointer.render(path)} for path in paths]
    patching.submit(access, ops, reason=reason, dry_run=dry_run)


def kept_of(access: Access, what: Sequence[str]) -> list[str]:
    """Those words that name a container of which only a stopped one is left."""
    named = [word for word in what if _is_container(pointing.address_of(word))]
    found = {word: access.object(pointing.address_of(word)) for word in named}
    return [word for word, one in found.items() if is_left(one.state, one.status)]


def _removable(document: JsonObject, address: str) -> tuple[str, ...]:
    if not _is_container(address):
        return path_of(document, address)
    path = pointing.field_of(address, "")
    if not pointer.has(document, path):
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", "plan get containers -o name lists what there is")
    return path
