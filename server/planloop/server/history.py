"""Reads of the past: pages of the log and of messages, and objects as they were at a revision."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.store.memory_view import MemoryView
from planloop.reconciler.store.sqlite import database
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import HISTORY_SHOWN_MAX, LOG_ANSWER_BYTES_MAX
from planloop.schemas.log.record import Put, Record, SetStatus, record_to_json
from planloop.server import plan_reader, read_queries

# Pages of the log and of messages: on from a revision, or the newest before one.
#
# SQLite finds the few records that can be meant by their text, so that a log of a million is gone through in a second
# and nearly nothing of it is decoded. A page ends after so many records or bytes, and says where the next one begins.

MESSAGES_DEFAULT: Final = 200  # What a person looks at, at once.


@frozen
class RevisionRange:
    """Records over `after` and under `before`, at most `limit`; `is_back` gives the newest of them first."""

    after: int
    before: int
    limit: int
    is_back: bool


def range_of_query(query: Mapping[str, str], newest: int, default: int, *, is_back: bool) -> RevisionRange:
    """What a query asks for; `is_back` is what it means when it names neither end."""
    before = min(int(query.get("before", newest + 1)), newest + 1)
    limit = min(int(query.get("limit", default)), HISTORY_SHOWN_MAX)
    return RevisionRange(int(query.get("after", 0)), before, limit, "before" in query or is_back)


def newest_revision(log: sqlite3.Connection) -> int:
    """The last revision, 0 for none."""
    return int(log.execute("SELECT coalesce(max(rev), 0) FROM log").fetchone()[0])


def written_at(log: sqlite3.Connection, rev: int) -> float:
    """When the revision was written, in seconds since 1970; 0 when there is none."""
    found = log.execute("SELECT at FROM log WHERE rev = ?", (rev,)).fetchone()
    return 0.0 if found is None else float(found[0])


def record_page(log: sqlite3.Connection, query: Mapping[str, str]) -> JsonObject:
    """The answer to GET /v1/log."""
    rev = newest_revision(log)
    span = range_of_query(query, rev, HISTORY_SHOWN_MAX, is_back=False)
    type_, about = query.get("type", ""), query.get("about", "")
    # The text as the log has it, without the end of its string: more follows of a type or an address that begins so.
    words = [f'"type":{encode_text(type_)[:-1]}'] if type_ else []
    words += [f'"subject":{encode_text(about)[:-1]}'] if about else []
    found: list[Record] = []
    size, is_more = 0, False
    for record, body in _rows(log, span, words):
        if not _is_meant(record, type_, about):
            continue
        if len(found) == span.limit or (found and size + len(body) > LOG_ANSWER_BYTES_MAX):
            is_more = True
            break
        found.append(record)
        size += len(body)
    next_ = found[-1].rev if is_more else None
    ordered = reversed(found) if span.is_back else found
    return {"rev": rev, "records": [record_to_json(record) for record in ordered], "next": next_}


def message_page(log: sqlite3.Connection, query: Mapping[str, str]) -> JsonObject:
    """The answer to GET /v1/messages."""
    rev = newest_revision(log)
    span = range_of_query(query, rev, MESSAGES_DEFAULT, is_back=True)
    of = query.get("of", "")
    found: list[JsonObject] = []
    for record, _ in _rows(log, span, ['"inbox":{', *([encode_text(of)] if of else ())]):
        # Those of one record stay together: the next page begins under a revision.
        if len(found) >= span.limit:
            return {"rev": rev, "messages": found[::-1], "next": record.rev + 1}
        letters = [one for one in _letters(record) if not of or of in (one["sender"], one["receiver"])]
        found += [{"rev": record.rev, **one} for one in reversed(letters)]
    return {"rev": rev, "messages": found[::-1], "next": None}


def _rows(log: sqlite3.Connection, span: RevisionRange, words: list[str]) -> Iterator[tuple[Record, str]]:
    """The records of `span` with all `words` in their text, with that text; its limit is not looked at."""
    named = "".join(" AND instr(body, ?)" for _ in words)
    order = "DESC" if span.is_back else "ASC"
    query = f"SELECT rev, body FROM log WHERE rev > ? AND rev < ?{named} ORDER BY rev {order}"
    for rev, body in log.execute(query, (span.after, span.before, *words)):
        yield database.parse_record(body, rev), body


def _is_meant(record: Record, type_: str, about: str) -> bool:
    """Whether a step that the record tells of is of that type and about that object, or one below it."""
    return any(
        step.type.startswith(type_) and (not about or step.subject == about or step.subject.startswith(f"{about}/"))
        for step in record.draft.entries
    )


def _letters(record: Record) -> Iterator[JsonObject]:
    """The messages that the record puts into inboxes."""
    for change in record.draft.changes:
        merge = change.merge if isinstance(change, SetStatus) else change.status if isinstance(change, Put) else {}
        yield from (letter for letter in (merge.get("inbox") or {}).values() if letter is not None)


# Reads that look into the log itself, whoever answers: they take their time, so an owner has them made in a thread.

PAST_VIEWS_MAX: Final = 8  # Whoever drags along a timeline goes back and forth over a few stretches of it.


class PastObjects:
    """Folds of a log that were asked for, so that the next one need not begin at the start. Safe for threads."""

    def __init__(self) -> None:
        self._known: deque[database.LoadedLog] = deque(maxlen=PAST_VIEWS_MAX)

    def as_of(self, log: sqlite3.Connection, rev: int) -> MemoryView:
        """The objects as they were at `rev`."""
        found = database.load_log_at(log, rev, tuple(self._known))
        self._known.append(found)
        return found.view


def history_answer(
    folder: Path, plan: str, path: str, query: Mapping[str, str], past: PastObjects | None = None
) -> Json:
    """The answer to GET /v1/`path` for the plan whose state is in `folder`. Raises CommandError, StoreFailed.

    Whoever answers often keeps a `past`.
    """
    head, _, rest = path.partition("/")
    if head in ("conversation", "history", "prompt"):
        from planloop.server import history_views  # With all the words of turns and revisions.

        return history_views.history_view_answer(folder, plan, path, query)
    with database.open_read_transaction(folder) as log:
        match head:
            case "log":
                return record_page(log, query)
            case "messages":
                return message_page(log, query)
        view = (past or PastObjects()).as_of(log, _revision_of_query(log, query))
        if head in ("waiting", "waits"):
            return read_queries.pending_answer(view, plan, head, written_at(log, view.rev))
        if head == "describe":
            return read_queries.description_answer(view, rest)
        return plan_reader.object_answer(view, rest) if rest else read_queries.objects_answer(view, query)


def _revision_of_query(log: sqlite3.Connection, query: Mapping[str, str]) -> int:
    """The revision that is asked for. Raises CommandError: NOT_FOUND for one that is still to come."""
    rev, at = newest_revision(log), int(query["at"])
    if at > rev:
        raise CommandError(ExitCode.NOT_FOUND, f"there is no revision {at}: the log ends at {rev}", "plan events")
    return at
