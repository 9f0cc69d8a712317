"""Answers to reads of the API, from objects, blobs and outputs. The same with and without an owner.

`read_answer` handles every GET path of /v1 except the stream and those that read the log itself
(`planloop.server.history`). It is synchronous, so a command without an owner needs no event loop.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from typing import BinaryIO, Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.tail_file import read_page
from planloop.schemas import address as addresses
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import LOG_PAGE_BYTES, OBJECTS_ANSWER_MAX, TEXT_ANSWER_BYTES_MAX
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource, resource_from_json
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
            from planloop.client import process

            return pending_answer(archive, host.name, head, process.now())
        case "printed" if rest:
            return command_output_answer(archive, parse_query_address(f"task/{rest.removeprefix('task/')}"), query)
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
    from planloop.client import process
    from planloop.client.presenters import description

    return description.describe_answer(objects, found_object(objects, path), process.now())


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


# Output of a task command, a page at a time.
#
# While the command runs, the output is the file it writes to; afterwards it is a blob with the same bytes, so a reader
# continues at the same offset.


@frozen
class _CommandOutput:
    """The output of a run, to be closed; `is_over` says that nothing comes any more."""

    file: BinaryIO
    is_over: bool


def command_output_answer(archive: PlanReader, address: str, query: Mapping[str, str]) -> JsonObject:
    """The answer to GET /v1/printed/… for the task at `address`.

    Raises CommandError: NOT_FOUND when there is no such task, or no command of it has run.
    """
    item = resource_from_json(object_answer(archive, address))
    found = _open_output(archive, item)
    with found.file as file:
        size = file.seek(0, os.SEEK_END)
        after, before = (int(query[name]) if name in query else None for name in ("after", "before"))
        if after is not None and after <= size:
            start = file.seek(after)
            content = file.read(LOG_PAGE_BYTES)
        else:
            start, content = read_page(file, None if before is None else min(before, size), LOG_PAGE_BYTES)
    text, length = decode_page(content, is_end=found.is_over and start + len(content) >= size)
    is_over = found.is_over and start + length >= size
    # The run, and not its file: that goes on as a blob.
    log = f"{item.uid}-{item.status.get('incarnation', 0)}"
    return {"log": log, "start": start, "text": text, "next": start + length, "is_over": is_over}


def _open_output(archive: PlanReader, item: Resource) -> _CommandOutput:
    call = archive.get(str(item.status.get("call") or ""))
    if call is not None and call.spec.get("is_process"):
        file = archive.open_output(str(call.spec["op"]))
        return _CommandOutput(file or io.BytesIO(), is_over=False)
    result = item.status.get("result")
    if item.spec["work"]["kind"] == "run" and isinstance(result, dict):
        content = archive.get_blob(str(result["blob"])) if result.get("blob") else b""
        if content is None:
            raise CommandError(
                ExitCode.NOT_FOUND, f"what {item.address} printed is gone", "plan replay says what is missing"
            )
        return _CommandOutput(io.BytesIO(content), is_over=True)
    raise CommandError(ExitCode.NOT_FOUND, *_why_no_output(item))


def _why_no_output(item: Resource) -> tuple[str, str]:
    """Why there is nothing to read, and what to look at instead."""
    if item.spec["work"]["kind"] != "run":
        return f"{item.address} runs no command", f"plan logs {item.address} tells what its agent did"
    if item.state in ENDED:
        return f"{item.address} has ended without a command's output", f"plan describe {item.address} says why"
    return (
        f"{item.address} has not begun: it has printed nothing",
        f"plan describe {item.address} says what it waits for",
    )
