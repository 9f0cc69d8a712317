"""Output of a task command, a page at a time.

While it runs that is the file it writes to, afterwards a blob with the same bytes: who has read so far goes on there.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import BinaryIO

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.tail_file import read_page
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import LOG_PAGE_BYTES
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource, resource_from_json
from planloop.server.plan_reader import PlanReader, decode_page, object_answer


@frozen
class _Printed:
    """The output of a run, to be closed; `is_over` says that nothing comes any more."""

    file: BinaryIO
    is_over: bool


def command_output_answer(archive: PlanReader, address: str, query: Mapping[str, str]) -> JsonObject:
    """The answer to GET /v1/printed/… for the task at `address`.

    Raises CommandError: NOT_FOUND when there is no such task, or no command of it has run.
    """
    item = resource_from_json(object_answer(archive, address))
    found = _found(archive, item)
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


def _found(archive: PlanReader, item: Resource) -> _Printed:
    call = archive.get(str(item.status.get("call") or ""))
    if call is not None and call.spec.get("is_process"):
        file = archive.open_output(str(call.spec["op"]))
        return _Printed(file or io.BytesIO(), is_over=False)
    result = item.status.get("result")
    if item.spec["work"]["kind"] == "run" and isinstance(result, dict):
        content = archive.get_blob(str(result["blob"])) if result.get("blob") else b""
        if content is None:
            raise CommandError(
                ExitCode.NOT_FOUND, f"what {item.address} printed is gone", "plan replay says what is missing"
            )
        return _Printed(io.BytesIO(content), is_over=True)
    raise CommandError(ExitCode.NOT_FOUND, *_nothing(item))


def _nothing(item: Resource) -> tuple[str, str]:
    """Why there is nothing to read, and what to look at instead."""
    if item.spec["work"]["kind"] != "run":
        return f"{item.address} runs no command", f"plan logs {item.address} tells what its agent did"
    if item.state in ENDED:
        return f"{item.address} has ended without a command's output", f"plan describe {item.address} says why"
    return (
        f"{item.address} has not begun: it has printed nothing",
        f"plan describe {item.address} says what it waits for",
    )
