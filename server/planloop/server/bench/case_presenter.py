"""One case of a run as JSON: its prompts, its entries, and their checks and conversations.

Cases and entries come from `plan.json`, results from the run's events, conversations from the log of the run's plan,
and recorded files from the run's blobs.
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
_HEAD_BYTES: Final = 512  # Bytes of a blob that are used to detect its type.
_SIGNATURES: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))
TEXT_TYPES: Final = "text/plain; charset=utf-8"
BINARY_TYPE: Final = "application/octet-stream"


def case_json(library: RunLibrary, name: RunName, case_id: str) -> JsonObject:
    """Return a case with its results for every model. Raises CommandError."""
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
    """Return one entry: its prompt, its calls and conversations, its checks and its result. Raises CommandError."""
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
    """Return the content type of a blob by its first bytes: an image, a text, or unknown (BINARY_TYPE)."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    known = next((media for signature, media in _SIGNATURES if head.startswith(signature)), "")
    if known:
        return known
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return TEXT_TYPES if error.start >= len(head) - 3 else BINARY_TYPE  # The last character may be cut.
    return BINARY_TYPE if "\0" in head.decode() else TEXT_TYPES


def blob_parts(digest: str) -> tuple[str, str]:
    """Return the path of a blob in its run's folder. Raises CommandError for an invalid digest."""
    if not _DIGEST.fullmatch(digest):
        raise CommandError(ExitCode.NOT_FOUND, f"no blob `{digest[:80]}`", "the name of a blob has 64 hex digits")
    return BLOBS_FOLDER, digest


def _compiled(library: RunLibrary, name: RunName) -> CompiledRun:
    with library.reports.opened(name, run_folder.PLAN_JSON) as file:
        content = file.read()
    try:
        return compiled_run_from_json(decode(content))
    except (ValueError, KeyError, TypeError) as error:
        raise run_folder.invalid_plan_json(str(name), error) from None


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
            ExitCode.NOT_FOUND, f"{case_id} has no trial {trial} of `{model[:80]}`", f"its models are {known}"
        )
    return found


def _written(check: JsonObject) -> JsonObject:
    """Return a check as written in the suite, with its placeholders."""
    return {"check": check["key"], "kind": check["kind"], "arguments": check["arguments"]}


def _line(planned: RunEntry, found: fold.EntryResult | None) -> JsonObject:
    """Return the summary of an entry."""
    about: JsonObject = {"model": planned.model, "trial": planned.trial, "variant": planned.variant}
    if found is None:
        return about | {
            "verdict": "missing",
            "why": "it has not started",
            "usage": None,
            "seconds": "",
            "touched": False,
        }
    used = found.usage.to_json() | {"usd_words": report_text.format_usd(found.usage.usd)}
    took = report_text.format_seconds(found.times.took_s) if found.times.took_s is not None else ""
    so_far: JsonObject = {
        "verdict": bench_presenter.entry_verdict(found),
        "why": found.why,
        "touched": found.is_touched,
    }
    return about | so_far | {"usage": used if found.verdict is not None else None, "seconds": took}


def _figures(found: fold.EntryResult) -> list[JsonObject]:
    """Return the soft figures by name, as text."""
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
        return None  # The blob was deleted; the check's result is in the events.
    return {"name": what, "digest": digest, "media": media.partition(";")[0], "size": size}


def _calls(events: Sequence[BenchEvent]) -> list[JsonObject]:
    """Return the newest calls of an attempt with their results."""
    results = {one.data["call"]: one.data for one in events if one.type == "tool/result"}
    calls = [one for one in events if one.type == "tool/call"]
    return [_call(one, results.get(one.data["call"])) for one in calls[-limits.CASE_CALLS_MAX :]]


def _call(event: BenchEvent, result: JsonObject | None) -> JsonObject:
    data = event.data
    ended: JsonObject = result or {"state": "", "text": ""}
    about: JsonObject = {"call": data["call"], "tool": data["tool"], "arguments": data["arguments"]}
    return about | {"fault": data.get("fault", ""), "state": ended["state"], "text": ended["text"]}


def _transcripts(library: RunLibrary, name: RunName, agent: str) -> list[JsonObject]:
    """Return the conversations of `agent` and its descendants; empty if the run's log is missing."""
    place = library.place(name)
    if place is None:
        return []
    try:
        with backend.open_log(place.folder) as log:
            records = [entry.record for entry in log.records(RecordQuery(containing=(agent,)))]
    except (StoreFailed, StoreCorrupt):
        return []  # Figures and calls do not need the log: they are in the events.
    subjects = dict.fromkeys(entry.subject for record in records for entry in record.draft.entries)
    agents = [one for one in subjects if one == agent or one.startswith(f"{agent}/")]
    return [
        {"agent": one, "items": conversation.conversation_items(records, one)[-limits.CASE_ITEMS_MAX :]}
        for one in agents[: limits.CASE_AGENTS_MAX]
    ]
