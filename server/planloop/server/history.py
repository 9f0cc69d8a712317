"""Reads of the past: pages of the log and of messages, and objects at an earlier revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.store.log_reader import LogEntry, LogReader, RecordQuery
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import HISTORY_SHOWN_MAX, LOG_ANSWER_BYTES_MAX
from planloop.schemas.log.record import Put, Record, SetStatus, record_to_json
from planloop.server import plan_reader, read_queries

# Pages of the log and of messages: after a revision, or the newest before one.
#
# SQLite filters records by their text, so that searching a log of a million records takes a second and decodes few of
# them. A page is limited in records and bytes, and says where the next one starts.

MESSAGES_DEFAULT: Final = 200  # Messages per page.


@frozen
class RevisionRange:
    """Records after `after` and before `before`, at most `limit`. `is_back`: the newest ones, newest first."""

    after: int
    before: int
    limit: int
    is_back: bool


def range_of_query(query: Mapping[str, str], newest: int, default: int, *, is_back: bool) -> RevisionRange:
    """Return the range of a query. `is_back` is the direction of a query without `after` and `before`."""
    before = min(int(query.get("before", newest + 1)), newest + 1)
    limit = min(int(query.get("limit", default)), HISTORY_SHOWN_MAX)
    return RevisionRange(int(query.get("after", 0)), before, limit, "before" in query or is_back)


def record_page(log: LogReader, query: Mapping[str, str]) -> JsonObject:
    """Return the answer to GET /v1/log."""
    rev = log.last_rev()
    span = range_of_query(query, rev, HISTORY_SHOWN_MAX, is_back=False)
    type_, about = query.get("type", ""), query.get("about", "")
    # Without the closing quote, because types and addresses are matched by prefix.
    words = [f'"type":{encode_text(type_)[:-1]}'] if type_ else []
    words += [f'"subject":{encode_text(about)[:-1]}'] if about else []
    found: list[Record] = []
    size, is_more = 0, False
    for entry in _entries(log, span, words):
        if not _is_meant(entry.record, type_, about):
            continue
        if len(found) == span.limit or (found and size + len(entry.line) > LOG_ANSWER_BYTES_MAX):
            is_more = True
            break
        found.append(entry.record)
        size += len(entry.line)
    next_ = found[-1].rev if is_more else None
    ordered = reversed(found) if span.is_back else found
    return {"rev": rev, "records": [record_to_json(record) for record in ordered], "next": next_}


def message_page(log: LogReader, query: Mapping[str, str]) -> JsonObject:
    """Return the answer to GET /v1/messages."""
    rev = log.last_rev()
    span = range_of_query(query, rev, MESSAGES_DEFAULT, is_back=True)
    of = query.get("of", "")
    found: list[JsonObject] = []
    for entry in _entries(log, span, ['"inbox":{', *([encode_text(of)] if of else ())]):
        record = entry.record
        # Keep the messages of one record on one page, because a page starts before a revision.
        if len(found) >= span.limit:
            return {"rev": rev, "messages": found[::-1], "next": record.rev + 1}
        letters = [one for one in _letters(record) if not of or of in (one["sender"], one["receiver"])]
        found += [{"rev": record.rev, **one} for one in reversed(letters)]
    return {"rev": rev, "messages": found[::-1], "next": None}


def _entries(log: LogReader, span: RevisionRange, words: list[str]) -> Iterator[LogEntry]:
    """Yield the records of `span` with all `words` in their text. The caller applies the limit."""
    return log.records(RecordQuery(span.after, span.before, containing=tuple(words), newest_first=span.is_back))


def _is_meant(record: Record, type_: str, about: str) -> bool:
    """Return whether a step of the record has that type and is about that object or one below it."""
    return any(
        step.type.startswith(type_) and (not about or step.subject == about or step.subject.startswith(f"{about}/"))
        for step in record.draft.entries
    )


def _letters(record: Record) -> Iterator[JsonObject]:
    """Yield the messages that the record delivers."""
    for change in record.draft.changes:
        merge = change.merge if isinstance(change, SetStatus) else change.status if isinstance(change, Put) else {}
        yield from (letter for letter in (merge.get("inbox") or {}).values() if letter is not None)


def history_answer(log: LogReader, plan: str, path: str, query: Mapping[str, str]) -> Json:
    """Return the answer to GET /v1/`path` from the log of the plan `plan`. Raises CommandError, StoreFailed.

    Reading may take a while, so servers call it in a thread.
    """
    head, _, rest = path.partition("/")
    if head in ("conversation", "history", "prompt"):
        from planloop.server import history_views  # Loads the presenters of turns and revisions.

        return history_views.history_view_answer(log, plan, path, query)
    match head:
        case "log":
            return record_page(log, query)
        case "messages":
            return message_page(log, query)
    rev = _revision_of_query(log, query)
    view = log.view_at(rev)
    if head in ("waiting", "waits"):
        return read_queries.pending_answer(view, plan, head, _written_at(log, rev))
    if head == "describe":
        return read_queries.description_answer(view, rest)
    return plan_reader.object_answer(view, rest) if rest else read_queries.objects_answer(view, query)


def _revision_of_query(log: LogReader, query: Mapping[str, str]) -> int:
    """Return the requested revision. Raises CommandError: NOT_FOUND if the log has not reached it yet."""
    rev, at = log.last_rev(), int(query["at"])
    if at > rev:
        raise CommandError(ExitCode.NOT_FOUND, f"revision {at} does not exist; the newest is {rev}", "plan events")
    return at


def _written_at(log: LogReader, rev: int) -> float:
    """Return when the revision was written, in seconds since 1970; 0 for the empty log."""
    return next((entry.record.at for entry in log.records(RecordQuery(rev - 1, rev + 1))), 0.0)
