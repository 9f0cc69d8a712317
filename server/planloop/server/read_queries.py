"""Answers to reads of the API, from objects, blobs and outputs. The same with and without an owner.

`answer` knows every GET path of /v1 but those that read the log itself (`planloop.server.history`) and the stream. It
is synchronous, so a command with no owner alive needs no event loop for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import address as addresses
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import OBJECTS_ANSWER_MAX, TEXT_ANSWER_BYTES_MAX
from planloop.schemas.resource import Resource
from planloop.server.plan_reader import (
    ObjectReader,
    PlanReader,
    decode_page,
    found_object,
    object_answer,
    parse_query_address,
)

LOG_QUERIES: Final = frozenset({"conversation", "history", "log", "messages", "prompt"})
"""Heads of paths of `planloop.server.history`."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@frozen
class OwnerInfo:
    """Who answers: the plan's name and, with an owner alive, its process and what it does with the file."""

    name: str
    pid: int | None = None
    version: str = ""
    file: str | None = None


def read_answer(archive: PlanReader, host: OwnerInfo, path: str, query: Mapping[str, str]) -> Json:
    """The answer to GET /v1/`path`. Raises CommandError: NOT_FOUND for an object, USAGE for a path that there is
    not.
    """
    head, _, rest = path.partition("/")
    match head:
        case "status":
            return _status(archive, host)
        case "objects":
            return object_answer(archive, rest) if rest else objects_answer(archive, query)
        case "describe" if rest:
            return description_answer(archive, rest)
        case "blobs":
            return _blob(archive, rest, int(query.get("after", 0)))
        case "dump":
            from planloop.server import agent_export  # Nothing else that is read needs to know what an agent is.

            return agent_export.export_agent(
                archive, host.name, parse_query_address(f"agent/{rest.removeprefix('agent/')}")
            )
        case "waiting" | "waits" if not rest:
            from planloop.client import context

            return pending_answer(archive, host.name, head, context.now())
        case "printed" if rest:
            from planloop.server import command_output

            return command_output.command_output_answer(
                archive, parse_query_address(f"task/{rest.removeprefix('task/')}"), query
            )
        case "output":
            return _output(archive, rest, int(query.get("after", 0)))
        case _:
            raise CommandError(
                ExitCode.USAGE, f"the API has no `{path}`", "plan version on both sides tells if they differ"
            )


def is_log_query(path: str, query: Mapping[str, str]) -> bool:
    """Whether GET `path` is a read of the log's file: `history.history_answer` has it, and takes its time."""
    head = path.partition("/")[0]
    return head in LOG_QUERIES or (head in ("objects", "describe", "waiting", "waits") and "at" in query)


def pending_answer(objects: ObjectReader, plan: str, head: str, now: float) -> JsonObject:
    """What waits for a person in the plan of that name, or, for `waits`, who waits for whom over files."""
    from planloop.client.presenters import approvals, lock_waits

    return (
        lock_waits.lock_waits_answer(objects, now) if head == "waits" else approvals.waiting_answer(objects, plan, now)
    )


def _status(archive: PlanReader, host: OwnerInfo) -> JsonObject:
    return {
        "plan": host.name,
        "pid": host.pid,
        "version": host.version,
        "file": host.file,
        "rev": archive.rev,
        "epoch": archive.epoch,
    }


def description_answer(objects: ObjectReader, path: str) -> JsonObject:
    """What `plan describe` says of the object at the address that `path` names. Raises CommandError: NOT_FOUND."""
    from planloop.client import context
    from planloop.client.presenters import description

    return description.describe_answer(objects, found_object(objects, path), context.now())


def objects_answer(objects: ObjectReader, query: Mapping[str, str]) -> JsonObject:
    """A page of the objects of `kind`, from behind the address `from` on. Raises CommandError: USAGE for an unknown
    kind.
    """
    kinds = sorted(addresses.KINDS) if not query.get("kind") else sorted(set(query["kind"].split(",")))
    if unknown := [kind for kind in kinds if kind not in addresses.KINDS]:
        hint = f"kinds are {', '.join(sorted(addresses.KINDS))}"
        raise CommandError(ExitCode.USAGE, f"there are no objects of the kind `{unknown[0][:100]}`", hint)
    limit = min(int(query.get("limit", OBJECTS_ANSWER_MAX)), OBJECTS_ANSWER_MAX)
    after = query.get("from", "")
    first = after.partition("/")[0]
    found: list[Resource] = []
    for kind in kinds:
        if kind >= first and len(found) <= limit:
            found += [one for one in objects.list(kind) if kind > first or one.address > after]
    page = found[:limit]
    return {
        "rev": objects.rev,
        "objects": [item.to_json() for item in page],
        "next": page[-1].address if len(found) > limit else None,
    }


def _output(archive: PlanReader, op: str, after: int) -> JsonObject:
    file = archive.open_output(op)
    if file is None:
        return {"text": "", "next": after}
    with file:
        file.seek(after)
        content = file.read(TEXT_ANSWER_BYTES_MAX)
    text, length = decode_page(content, is_end=False)  # It goes on, for all that one knows.
    return {"text": text, "next": after + length}


def _blob(archive: PlanReader, digest: str, after: int) -> JsonObject:
    content = archive.get_blob(digest) if _DIGEST.fullmatch(digest) else None
    if content is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no blob {digest[:12]}", "plan replay says whether any are missing")
    page = content[after : after + TEXT_ANSWER_BYTES_MAX]
    is_end = after + len(page) >= len(content)
    text, length = decode_page(page, is_end=is_end)
    return {"text": text, "size": len(content), "next": None if is_end else after + length}
