"""One case of a run as JSON: the request, what each entry did, and its checks.

The case and its entries are those of `plan.json`, what became of them is in the events, what was said is in the log of
the run's plan, and what checks saw lies in its blobs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO, Final

from planloop.benchmarks.events.reader import BenchEvent
from planloop.benchmarks.grading.context import BLOBS_FOLDER
from planloop.benchmarks.reporting import report_text
from planloop.benchmarks.runs.plan import task_name
from planloop.benchmarks.runs.run_compiler import CompiledRun, RunEntry, compiled_run_from_json, fill_for_entry
from planloop.benchmarks.scoring import fold
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.presenters import conversation
from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store import backend
from planloop.reconciler.store.log_reader import RecordQuery
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, decode
from planloop.server.bench import bench_presenter, run_folder
from planloop.server.bench.run_folder import RunName
from planloop.server.bench.run_library import RunLibrary

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HEAD_BYTES: Final = 512  # By so much of a blob its type is told.
_SIGNATURES: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))
TEXT_TYPES: Final = "text/plain; charset=utf-8"
BINARY_TYPE: Final = "application/octet-stream"


def case_json(library: RunLibrary, name: RunName, case_id: str) -> JsonObject:
    """A case, and how it went with every model. Raises CommandError."""
    compiled = _compiled(library, name)
    found = _case(compiled, case_id)
    entries = [one for one in library.summary(name).entries if one.case == case_id]
    planned = [one for one in compiled.entries.values() if one.case == case_id]
    ended = {(one.model, one.trial): one for one in entries}
    return {
        "suite": name.suite,
        "run": name.run,
        "case": case_id,
        "about": {key: found[key] for key in ("language", "tags", "image", "tools", "files", "budget", "within_s")},
        "prompts": found["prompts"],
        "checks": [_written(check) for check in found["checks"]],
        "entries": [_line(one, ended.get((one.model, one.trial))) for one in planned],
    }


def entry_json(library: RunLibrary, name: RunName, case_id: str, model: str, trial: int) -> JsonObject:
    """One entry: what it was told, all that it did, and what came of it. Raises CommandError."""
    compiled = _compiled(library, name)
    found, planned = _case(compiled, case_id), _entry(compiled, case_id, model, trial)
    growing = library.run(name)
    with growing.lock:
        events = growing.events_of((case_id, model, trial))
        of = [one for one in growing.summary().entries if (one.case, one.model, one.trial) == (case_id, model, trial)]
    attempts = sorted({one.attempt for one in events if one.attempt is not None})
    last = [one for one in events if attempts and one.attempt == attempts[-1]]
    task = task_name(planned.name, attempts[-1] if attempts else 1)
    prompt = fill_for_entry(compiled, planned, found["prompts"][planned.variant])
    return {
        **_line(planned, of[0] if of else None),
        "case": case_id,
        "prompt": prompt,
        "task": f"task/{task}",
        "attempts": len(attempts),
        "checks": [_checked(library, name, one.data) for one in last if one.type == "check/result"],
        "calls": _calls(last),
        "figures": _figures(of[0]) if of else [],
        "transcripts": _transcripts(library, name, f"agent/{task}"),
    }


def media_of(file: BinaryIO) -> str:
    """What a blob is, by its own first bytes: an image, a text, or something that nobody is to interpret."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    known = next((media for signature, media in _SIGNATURES if head.startswith(signature)), "")
    if known:
        return known
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return TEXT_TYPES if error.start >= len(head) - 3 else BINARY_TYPE  # The cut may go through a letter.
    return BINARY_TYPE if "\0" in head.decode() else TEXT_TYPES


def blob_parts(digest: str) -> tuple[str, str]:
    """Where a blob lies in its run. Raises CommandError for what is no digest."""
    if not _DIGEST.fullmatch(digest):
        raise CommandError(ExitCode.NOT_FOUND, f"there is no blob `{digest[:80]}`", "a blob is named by 64 hex digits")
    return BLOBS_FOLDER, digest


def _compiled(library: RunLibrary, name: RunName) -> CompiledRun:
    with library.reports.opened(name, run_folder.PLAN_JSON) as file:
        content = file.read()
    try:
        return compiled_run_from_json(decode(content))
    except (ValueError, KeyError, TypeError) as error:
        hint = "put it back as it was, or begin another run"
        raise CommandError(
            ExitCode.INVALID, f"{name}: plan.json is not what a run of this version writes: {error!r}", hint
        ) from None


def _case(compiled: CompiledRun, case_id: str) -> JsonObject:
    if case_id not in compiled.cases:
        hint = f"it has {len(compiled.cases)}: the report of the run lists them"
        raise CommandError(ExitCode.NOT_FOUND, f"the run has no case `{case_id[:80]}`", hint)
    return compiled.cases[case_id]


def _entry(compiled: CompiledRun, case_id: str, model: str, trial: int) -> RunEntry:
    of_case = [one for one in compiled.entries.values() if one.case == case_id]
    found = next((one for one in of_case if (one.model, one.trial) == (model, trial)), None)
    if found is None:
        known = ", ".join(dict.fromkeys(one.model for one in of_case))
        raise CommandError(
            ExitCode.NOT_FOUND, f"{case_id} was not given to `{model[:80]}` as trial {trial}", f"it has {known}"
        )
    return found


def _written(check: JsonObject) -> JsonObject:
    """A check as it stands in the suite, its blanks not filled."""
    return {"check": check["key"], "kind": check["kind"], "arguments": check["arguments"]}


def _line(planned: RunEntry, found: fold.EntryResult | None) -> JsonObject:
    """An entry in a line."""
    about: JsonObject = {"model": planned.model, "trial": planned.trial, "variant": planned.variant}
    if found is None:
        return about | {"verdict": "missing", "why": "it has not begun", "usage": None, "seconds": "", "touched": False}
    used = found.usage.to_json() | {"usd_words": report_text.format_usd(found.usage.usd)}
    took = report_text.format_seconds(found.times.took_s) if found.times.took_s is not None else ""
    so_far: JsonObject = {
        "verdict": bench_presenter.entry_verdict(found),
        "why": found.why,
        "touched": found.is_touched,
    }
    return about | so_far | {"usage": used if found.verdict is not None else None, "seconds": took}


def _figures(found: fold.EntryResult) -> list[JsonObject]:
    """Soft figures by name, in words."""
    plain = [(name, report_text.format_number(value)) for name, value in sorted(found.soft.items())]
    times = [(name, report_text.format_seconds(value)) for name, value in sorted(found.times.soft.items())]
    return [{"figure": name, "value": words} for name, words in plain + times]


def _checked(library: RunLibrary, name: RunName, data: JsonObject) -> JsonObject:
    blobs = [_blob(library, name, what, str(digest)) for what, digest in (data.get("blobs") or {}).items()]
    took = (data.get("timing") or {}).get("s")
    return {
        "check": data["check"],
        "kind": data.get("kind", ""),
        "result": data["result"],
        "message": data.get("message", ""),
        "probes": data.get("probes", 0),
        "seconds": "" if took is None else report_text.format_seconds(took),
        "blobs": [one for one in blobs if one is not None],
    }


def _blob(library: RunLibrary, name: RunName, what: str, digest: str) -> JsonObject | None:
    try:
        with library.reports.opened(name, *blob_parts(digest)) as file:
            media, size = media_of(file), file.seek(0, 2)
    except CommandError:
        return None  # Somebody has tidied up: the result stands without it.
    return {"name": what, "digest": digest, "media": media.partition(";")[0], "size": size}


def _calls(events: Sequence[BenchEvent]) -> list[JsonObject]:
    """The newest calls of an attempt, each with its result."""
    results = {one.data["call"]: one.data for one in events if one.type == "tool/result"}
    calls = [one for one in events if one.type == "tool/call"]
    return [_call(one, results.get(one.data["call"])) for one in calls[-limits.CASE_CALLS_MAX :]]


def _call(event: BenchEvent, result: JsonObject | None) -> JsonObject:
    data = event.data
    ended: JsonObject = result or {"state": "", "text": ""}
    about: JsonObject = {"call": data["call"], "tool": data["tool"], "arguments": data["arguments"]}
    return about | {"fault": data.get("fault", ""), "state": ended["state"], "text": ended["text"]}


def _transcripts(library: RunLibrary, name: RunName, agent: str) -> list[JsonObject]:
    """What `agent` and those below it lived through; empty where the run's log is gone."""
    place = library.place(name)
    if place is None:
        return []
    try:
        with backend.open_log(place.folder) as log:
            records = [entry.record for entry in log.records(RecordQuery(containing=(agent,)))]
    except (StoreFailed, StoreCorrupt):
        return []  # Figures and calls stand without it, in the events.
    subjects = dict.fromkeys(said.subject for record in records for said in record.draft.entries)
    agents = [one for one in subjects if one == agent or one.startswith(f"{agent}/")]
    return [
        {"agent": one, "items": conversation.conversation_items(records, one)[-limits.CASE_ITEMS_MAX :]}
        for one in agents[: limits.CASE_AGENTS_MAX]
    ]
