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
"""The first parts of the paths that `planloop.server.history` answers."""
OTHER_VERSION_HINT: Final = "run plan version on both sides: they may have different versions"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@frozen
class OwnerInfo:
    """The plan's name and, if an owner is running, its process, its version and its plan file."""

    name: str
    pid: int | None = None
    version: str = ""
    file: str | None = None


def read_answer(archive: PlanReader, host: OwnerInfo, path: str, query: Mapping[str, str]) -> Json:
    """Return the answer to GET /v1/`path`. Raises CommandError: NOT_FOUND for objects, USAGE for an unknown path."""
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
            from planloop.server import agent_export  # Loads the agent controller, which other reads do not need.

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
            raise CommandError(ExitCode.USAGE, f"the API has no `{path}`", OTHER_VERSION_HINT)


def is_log_query(path: str, query: Mapping[str, str]) -> bool:
    """Return whether GET `path` reads the log's file. `history.history_answer` answers it, which may take a while."""
    head = path.partition("/")[0]
    return head in LOG_QUERIES or (head in ("objects", "describe", "waiting", "waits") and "at" in query)


def pending_answer(objects: ObjectReader, plan: str, head: str, now: float) -> JsonObject:
    """Return the pending actions of the plan or, if `head` is `waits`, its locks and their waiters."""
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
    """Return the description of an object, as `plan describe` prints it. Raises CommandError: NOT_FOUND."""
    from planloop.client import process
    from planloop.client.presenters import description

    return description.describe_answer(objects, found_object(objects, path), process.now())


def objects_answer(objects: ObjectReader, query: Mapping[str, str]) -> JsonObject:
    """Return a page of the objects of `kind` after the address `from`. Raises CommandError: USAGE for unknown kinds."""
    kinds = sorted(addresses.KINDS) if not query.get("kind") else sorted(set(query["kind"].split(",")))
    if unknown := [kind for kind in kinds if kind not in addresses.KINDS]:
        hint = f"kinds are {', '.join(sorted(addresses.KINDS))}"
        raise CommandError(ExitCode.USAGE, f"unknown kind `{unknown[0][:100]}`", hint)
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
    text, length = decode_page(content, is_end=False)  # The command may still write more.
    return {"text": text, "next": after + length}


def _blob(archive: PlanReader, digest: str, after: int) -> JsonObject:
    content = archive.get_blob(digest) if _DIGEST.fullmatch(digest) else None
    if content is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no blob {digest[:12]}", "plan replay reports missing blobs")
    page = content[after : after + TEXT_ANSWER_BYTES_MAX]
    is_end = after + len(page) >= len(content)
    text, length = decode_page(page, is_end=is_end)
    return {"text": text, "size": len(content), "next": None if is_end else after + length}


# Output of a task command, a page at a time.
#
# While the command runs, the output is the file that it writes to. Afterwards it is a blob with the same bytes, so a
# reader continues at the same offset.


@frozen
class _CommandOutput:
    """The output of a run. The caller closes `file`. `is_over`: the command has ended."""

    file: BinaryIO
    is_over: bool


def command_output_answer(archive: PlanReader, address: str, query: Mapping[str, str]) -> JsonObject:
    """Return the answer to GET /v1/printed/… for the task at `address`.

    Raises CommandError: NOT_FOUND if the task does not exist or its command has not run.
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
    # Identifies the run, not the file, because the output moves from a file to a blob.
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
                ExitCode.NOT_FOUND, f"the output of {item.address} is missing", "plan replay reports missing blobs"
            )
        return _CommandOutput(io.BytesIO(content), is_over=True)
    raise CommandError(ExitCode.NOT_FOUND, *_why_no_output(item))


def _why_no_output(item: Resource) -> tuple[str, str]:
    """Return why a task has no output, and a hint."""
    if item.spec["work"]["kind"] != "run":
        return f"{item.address} runs no command", f"plan logs {item.address} shows what its agent did"
    if item.state in ENDED:
        return f"{item.address} ended before its command printed anything", f"plan describe {item.address} says why"
    return (
        f"{item.address} has no output yet, because it has not started",
        f"plan describe {item.address} says what it waits for",
    )
