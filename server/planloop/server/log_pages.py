"""Pages of the log and of messages: on from a revision, or the newest before one.

SQLite finds the few records that can be meant by their text, so that a log of a million is gone through in a second
and nearly nothing of it is decoded. A page ends after so many records or bytes, and says where the next one begins.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

from planloop.reconciler.storing import sqlite_log
from planloop.schemas.encoding import JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import HISTORY_SHOWN_MAX, LOG_ANSWER_BYTES_MAX
from planloop.schemas.record import Put, Record, SetStatus, record_to_json

MESSAGES_DEFAULT: Final = 200  # What a person looks at, at once.


@frozen
class Span:
    """Records over `after` and under `before`, at most `limit`; `is_back` gives the newest of them first."""

    after: int
    before: int
    limit: int
    is_back: bool


def span_of(query: Mapping[str, str], newest: int, default: int, *, is_back: bool) -> Span:
    """What a query asks for; `is_back` is what it means when it names neither end."""
    before = min(int(query.get("before", newest + 1)), newest + 1)
    limit = min(int(query.get("limit", default)), HISTORY_SHOWN_MAX)
    return Span(int(query.get("after", 0)), before, limit, "before" in query or is_back)


def newest(log: sqlite3.Connection) -> int:
    """The last revision, 0 for none."""
    return int(log.execute("SELECT coalesce(max(rev), 0) FROM log").fetchone()[0])


def written_at(log: sqlite3.Connection, rev: int) -> float:
    """When the revision was written, in seconds since 1970; 0 when there is none."""
    found = log.execute("SELECT at FROM log WHERE rev = ?", (rev,)).fetchone()
    return 0.0 if found is None else float(found[0])


def records(log: sqlite3.Connection, query: Mapping[str, str]) -> JsonObject:
    """The answer to GET /v1/log."""
    rev = newest(log)
    span = span_of(query, rev, HISTORY_SHOWN_MAX, is_back=False)
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


def messages(log: sqlite3.Connection, query: Mapping[str, str]) -> JsonObject:
    """The answer to GET /v1/messages."""
    rev = newest(log)
    span = span_of(query, rev, MESSAGES_DEFAULT, is_back=True)
    of = query.get("of", "")
    found: list[JsonObject] = []
    for record, _ in _rows(log, span, ['"inbox":{', *([encode_text(of)] if of else ())]):
        # Those of one record stay together: the next page begins under a revision.
        if len(found) >= span.limit:
            return {"rev": rev, "messages": found[::-1], "next": record.rev + 1}
        letters = [one for one in _letters(record) if not of or of in (one["sender"], one["receiver"])]
        found += [{"rev": record.rev, **one} for one in reversed(letters)]
    return {"rev": rev, "messages": found[::-1], "next": None}


def _rows(log: sqlite3.Connection, span: Span, words: list[str]) -> Iterator[tuple[Record, str]]:
    """The records of `span` with all `words` in their text, with that text; its limit is not looked at."""
    named = "".join(" AND instr(body, ?)" for _ in words)
    order = "DESC" if span.is_back else "ASC"
    query = f"SELECT rev, body FROM log WHERE rev > ? AND rev < ?{named} ORDER BY rev {order}"
    for rev, body in log.execute(query, (span.after, span.before, *words)):
        yield sqlite_log.to_record(body, rev), body


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
