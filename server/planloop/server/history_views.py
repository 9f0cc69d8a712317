"""Answers about the past with texts for display: an agent's conversation and prompts, and the plan's revisions.

They read the log newest first and only as far as needed. The owner, the gateway and commands without an owner use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.presenters import conversation, revisions
from planloop.reconciler.admission.history import DOCUMENT_TYPES, REVISION_TYPES
from planloop.reconciler.store.log_reader import LogReader, RecordQuery
from planloop.schemas.canonical_json import Json, JsonObject, decode, encode_text
from planloop.schemas.log.record import Record
from planloop.server import plan_reader

TURNS_DEFAULT: Final = 20
TURNS_MAX: Final = 100  # Per page: a turn with its calls may have some hundred kilobytes.
REVISIONS_DEFAULT: Final = 50
REVISIONS_MAX: Final = 500
NEWER_RECORDS_MAX: Final = 2_000  # Records of an agent per answer. A client that is further behind repeats the request.


def history_view_answer(log: LogReader, plan: str, path: str, query: Mapping[str, str]) -> Json:
    """Return the answer to GET /v1/`path` from the log of the plan `plan`. Raises CommandError, StoreFailed."""
    head, _, rest = path.partition("/")
    if head == "prompt":
        return _prompt(log, plan_reader.parse_query_address(f"agent/{rest.removeprefix('agent/')}"), query)
    if head == "conversation":
        return _conversation(log, plan_reader.parse_query_address(f"agent/{rest.removeprefix('agent/')}"), query)
    if rest:
        return _revision(log, plan, _number(rest, "revision"))
    return _history(log, query)


def _conversation(log: LogReader, agent: str, query: Mapping[str, str]) -> JsonObject:
    """Return the items of the newest whole turns before `before`, or of all turns after `after`.

    `earlier` is the `before` of the previous page, None on the first page. `rev` is the next `after`.
    """
    newest = log.last_rev()
    if "after" in query:
        after = _number(query["after"], "after")
        found = list(_about(log, agent, after, newest + 1, NEWER_RECORDS_MAX))
        rev = found[-1].rev if len(found) == NEWER_RECORDS_MAX else newest
        return {
            "rev": rev,
            "items": conversation.conversation_items(found, agent, _letters(log, agent)),
            "earlier": None,
        }
    before = min(_number(query.get("before", str(newest + 1)), "before"), newest + 1)
    turns = min(max(1, _number(query.get("turns", str(TURNS_DEFAULT)), "turns")), TURNS_MAX)
    begun = _turns_before(log, agent, before, turns + 1)
    start = begun[-2] if len(begun) > turns else 0
    found = list(_about(log, agent, start - 1, before))
    return {
        "rev": newest,
        "items": conversation.conversation_items(found, agent, _letters(log, agent)),
        "earlier": start or None,
    }


def _prompt(log: LogReader, agent: str, query: Mapping[str, str]) -> JsonObject:
    """Return the system message of the agent's last request in `turn`, by default in its last turn before `before`.

    Raises CommandError: NOT_FOUND if the agent has not taken the turn, or has no model.
    """
    newest = log.last_rev()
    before = min(_number(query.get("before", str(newest + 1)), "before"), newest + 1)
    asked = conversation.turn_prompt(_about(log, agent, 0, before), agent)
    turn = _number(query["turn"], "turn") if "turn" in query else max(asked.found, default=0)
    found = asked.found.get(turn)
    if found is None:
        if not asked.found:
            hint = "only LLM agents have a prompt" if asked.turns else f"plan describe {agent}"
            raise CommandError(ExitCode.NOT_FOUND, f"{agent} has sent no request to a model", hint)
        hint = f"it sent requests in the turns {_ranges(sorted(asked.found))}"
        raise CommandError(ExitCode.NOT_FOUND, f"{agent} sent no request to a model in turn {turn}", hint)
    content = log.get_blob(found["blob"]) if found["blob"] else None
    if content is None:
        raise CommandError(
            ExitCode.NOT_FOUND, f"the prompt of turn {turn} of {agent} is missing", "plan replay reports missing blobs"
        )
    return {**found, "text": str(decode(content)["content"]), "turns": sorted(asked.found)}


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: `1-4, 6`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)


def _turns_before(log: LogReader, agent: str, before: int, count: int) -> list[int]:
    """Return the first revisions of the newest turns before `before`, newest first."""
    found: list[int] = []
    words = ("turn.started", encode_text(agent))
    for entry in log.records(RecordQuery(before=before, containing=words, newest_first=True)):
        if any(one.type == "turn.started" and one.subject == agent for one in entry.record.draft.entries):
            found.append(entry.record.rev)
            if len(found) == count:
                break
    return found


def _about(log: LogReader, agent: str, after: int, before: int, limit: int | None = None) -> Iterator[Record]:
    """Yield the records that mention the agent. They include all records about it."""
    query = RecordQuery(after, before, containing=(encode_text(agent),), limit=limit)
    return (entry.record for entry in log.records(query))


def _letters(log: LogReader, agent: str) -> Callable[[str, int], JsonObject | None]:
    def letter(name: str, before: int) -> JsonObject | None:
        words = (encode_text(name), encode_text(agent))
        for entry in log.records(RecordQuery(before=before, containing=words, newest_first=True)):
            if (found := conversation.delivered_letters(entry.record, agent).get(name)) is not None:
                return found
        return None

    return letter


def _history(log: LogReader, query: Mapping[str, str]) -> JsonObject:
    """Return the newest revisions before `before`, newest first, filtered by `author` prefix and `kind` if given.

    Without `all`, only revisions that changed the document. `earlier` is the `before` of the next page (None: no page).
    """
    newest = log.last_rev()
    before = _number(query.get("before", str(newest + 1)), "before")
    limit = min(max(1, _number(query.get("limit", str(REVISIONS_DEFAULT)), "limit")), REVISIONS_MAX)
    types = revisions.is_shown_revision(query.get("all", ""), query.get("kind", ""))
    found: list[Record] = []
    for record in _revisions(log, before, types):
        if revisions.is_authored_by(record, query.get("author", "")):
            found.append(record)
        if len(found) > limit:
            break
    shown = found[:limit]
    return {
        "rev": newest,
        "revisions": [revisions.revision_row(record) for record in shown],
        "earlier": shown[-1].rev if len(found) > limit else None,
        "authors": sorted({revisions.author_json(actor) for actor in log.actors(REVISION_TYPES)}),
    }


def _revision(log: LogReader, plan: str, rev: int) -> JsonObject:
    """Return one revision with its differences and each field before and after. Raises CommandError: NOT_FOUND."""
    found = [record for record in _revisions(log, rev + 1, REVISION_TYPES, downto=rev) if record.rev == rev]
    if not found:
        raise CommandError(ExitCode.NOT_FOUND, f"revision {rev} is not a change of the plan", "plan history --all")
    past = list(_revisions(log, rev, DOCUMENT_TYPES))
    return revisions.revision_detail(found[0], f"plan/{plan}", revisions.document_at(reversed(past), f"plan/{plan}"))


def _revisions(log: LogReader, before: int, types: frozenset[str], *, downto: int = 0) -> Iterator[Record]:
    """Yield the records of those types before `before`, newest first."""
    query = RecordQuery(downto - 1, before, types, newest_first=True)
    return (entry.record for entry in log.records(query))


def _number(text: str, name: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise CommandError(ExitCode.USAGE, f"{name} must be a number, not `{text[:40]}`", "revisions start at 1")
    return int(text)
