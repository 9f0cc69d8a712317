"""The page folds the log and words objects in TypeScript as the product does: both are held to one corpus.

`web/tests/corpus` is written from here (`make docs`) and read by `web/tests/*.test.ts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planloop.client.render import budgets, object_tables, records, tables
from planloop.client.render import locks as render_locks
from planloop.schemas import json_patch, quantities
from planloop.schemas.resource import conditions_of_status
from tests import product
from tests.architecture.tree import ROOT
from tests.product import (
    Change,
    JsonObject,
    Record,
    RecordDraft,
    Resource,
    SubRecord,
    Uid,
    fold_record,
    record_to_json,
)

CORPUS = ROOT / "web" / "tests" / "corpus"
RECORDS = 200
PLACES = ("plan/p", "task/.", "task/a", "task/a/b", "task/c", "agent/.")
VALUES: tuple[Any, ...] = (
    None,
    0,
    1.5,
    True,
    "",
    "é\n",
    [],
    [1, [2]],
    {},
    {"x": {"y": 1}},
    {"x": None, "a/b": 3, "m~n": 4},
)


class Dice:
    """The same throws on every machine and for ever: a linear congruential generator."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def of(self, sides: int) -> int:
        self._state = (self._state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._state >> 8) % sides

    def pick(self, among: tuple[Any, ...]) -> Any:
        return among[self.of(len(among))]


def _change(dice: Dice, known: dict[str, Resource]) -> Change:
    """Any change, also late ones, which name an object that was replaced, moved or is gone."""
    address = dice.pick(PLACES)
    uid = known[address].uid if address in known and dice.of(4) else Uid(f"u{dice.of(6)}")
    match dice.of(8):
        case 0 | 1:
            spec = {name: dice.pick(VALUES) for name in ("x", "y")}
            status = {"state": dice.pick(("running", "done"))} if dice.of(2) else {}
            owner = dice.pick((None, "task/."))
            return product.Put(
                address, uid, spec, tuple(dice.pick(((), ("task/a",)))), owner, dice.pick(((), ("f",))), status
            )
        case 2:
            return product.Mark(address, uid, dice.pick((None, True, False)), dice.pick((None, (), ("f", "g"))))
        case 3:
            return product.Move(address, uid, dice.pick(PLACES))
        case 4:
            return product.Drop(address, uid)
        case 5 if address in known:
            return product.PatchSpec(address, _ops(dice, known[address].spec))
        case _:
            return product.SetStatus(address, uid, {dice.pick(("state", "x", "m")): dice.pick(VALUES)})


def _ops(dice: Dice, spec: JsonObject) -> tuple[json_patch.PatchOp, ...]:
    """An edit from `spec` to something else, as the gate records one, and now and then a move or a copy."""
    wanted = {"x": dice.pick(VALUES), "y": dice.pick(VALUES), "list": [dice.of(3), dice.of(3)]}
    found = tuple(json_patch.diff_values(spec, wanted))
    more = ({"op": "move", "from": "/x", "path": "/moved"}, {"op": "copy", "from": "/y", "path": "/list/-"})
    shown = [more[at] for at in range(dice.of(3))]
    return found + tuple(json_patch.op_from_json(number, one) for number, one in enumerate(shown))


def _folded() -> Iterator[JsonObject]:
    """Records, each with what it touched as it was afterwards, and which objects there were."""
    dice = Dice(7)
    known: dict[str, Resource] = {}
    for rev in range(1, RECORDS + 1):
        changes = tuple(_change(dice, known) for _ in range(1 + dice.of(3)))
        record = Record(rev, 100.0 + rev, 1, RecordDraft("object.updated", "controller:x", "task/.", changes))
        before = dict(known)
        try:
            touched = fold_record(known, record)
        except ValueError:  # A log never holds a patch that does not fit.
            known = before
            continue
        after = {address: known[address].to_json() if address in known else None for address in sorted(touched)}
        yield {"record": record_to_json(record), "after": after, "addresses": sorted(known)}


def _resource(address: str, spec: JsonObject, status: JsonObject, **more: Any) -> Resource:
    return Resource(address, Uid(more.pop("uid", f"uid-{address}")), 1, spec, status, **more)


def _condition(status: str, message: str, *unblocks: str, since: float = 10.0) -> JsonObject:
    told = {"status": status, "reason": "Because", "message": message, "since": since}
    return told | {"observed_generation": 1, "unblocks": list(unblocks)}


HELD = 'agent/b: lock core.js is held by agent/a (write) since 00:00:05 UTC, "write in turn 1"; and 2 more wait'
NOW_OF = {"agent/c": {"owner": "agent/c", "uid": "c", "incarnation": 1, "mode": "read", "since": 3661.0, "fence": 3}}
ACCOUNT = {"bound": "20", "spent": "0.5", "granted": {"uid-task/a": "4"}, "reserved": {"u": {"o": "0.25"}}}
WORLD = (
    _resource("task/.", {"goal": "all", "parent": None}, {"state": "running", "ledger": {"usd": ACCOUNT}}),
    _resource(
        "task/a",
        {"goal": "one\ntwo", "parent": "task/.", "acceptance": [{"key": "0"}, {"key": "1"}]},
        {
            "state": "blocked",
            "why": HELD,
            "checks": {"0": {"result": "pass"}, "1": {"result": "fail"}},
            "conditions": {
                "Ready": _condition("False", "not yet", "lock/core.js is released", "plan unlock lock/core.js"),
                "Stale": _condition("True", "old", "plan apply FILE", "plan unlock lock/core.js", since=11.0),
                "Done": _condition("Unknown", "?"),
            },
            "ledger": {
                "usd": {"bound": "4", "spent": "0.0042", "granted": {}, "reserved": {}, "handover": "1"},
                "calls": {"bound": "40", "spent": "12", "granted": {}, "reserved": {}, "unknown": 1},
                "time_s": {"bound": "7200", "spent": "100", "granted": {}, "reserved": {}},
            },
        },
    ),
    _resource("task/b", {"goal": "x", "parent": "task/.", "needs": ["task/a", "task/c/d"]}, {}),
    _resource("task/c", {"goal": "x", "parent": "task/."}, {"state": "done", "result": {"text": " it is done\nyes"}}),
    _resource("task/c/d", {"goal": "x", "parent": "task/c"}, {"state": "done", "result": {"files": 3}}, deleting=True),
    _resource("task/c/e", {"goal": "e", "parent": "task/c"}, {"conditions": {"Ready": _condition("False", "a\nb")}}),
    _resource("agent/c", {"task": "task/c"}, {"state": "running", "used": {"tokens": 212345, "usd": "0.031"}}),
    _resource("agent/c/d", {"task": "task/c/d"}, {"used": {"tokens": 100}}),
    _resource("hook/h", {}, {}),
)
LOCKS: tuple[JsonObject, ...] = (
    {},
    {"core.js": {"agent/a": {**NOW_OF["agent/c"], "owner": "agent/a"}}},
    {"core.js": NOW_OF},
    {"core.js": {**NOW_OF, "agent/a0": {**NOW_OF["agent/c"], "owner": "agent/a0", "since": 7.0, "reason": "edit"}}},
)


def _worded() -> JsonObject:
    costs = budgets.Costs(WORLD)
    seconds = (-1.0, 0.0, 0.44, 9.94, 9.96, 38.4, 59.6, 100.0, 3599.7, 7500.0, 90000.0, 400000.0)
    dollars = (0, 0.0042, 0.00001234, 0.01, 0.84, 12.3, 1234.5)
    return {
        "duration": [[one, quantities.format_duration(one)] for one in seconds],
        "money": [[one, quantities.format_money(Decimal(str(one)))] for one in dollars],
        "count": [[one, quantities.format_count(one)] for one in (0, 7, 950, 1000, 212345, 2_000_000, 1_550_000, 3e9)],
        "objects": [
            {
                "object": one.to_json(),
                "state": object_tables.state_of(one),
                "checks": object_tables.checks_of(one),
                "what": object_tables.state_reason(one),
                "unblocks": _exits(one),
                "cost": costs.line(one) if one.kind == "task" else "",
                "short": costs.short(one) if one.kind == "task" else "",
            }
            for one in WORLD
        ],
        "records": list(_records()),
        "by_now": [{"why": HELD, "holders": holders, "said": _said(holders)} for holders in LOCKS],
        "calls": [
            [spec, tables.call_words(spec)]
            for spec in (
                {"tool": "shell", "arguments": {"command": "git push origin fix", "wait": True}},
                {"tool": "edit", "arguments": {"path": "a.js", "old": "1", "new": "2", "more": "3"}},
                {"tool": "list"},
            )
        ],
    }


RESULT = {"state": "Failed", "error": "CommandFailed", "text": "x", "ended_at": 1.0}
MESSAGE = {"id": "m", "sender": "human:cli", "body": "go\non"}
STEPS: tuple[tuple[str, str, JsonObject], ...] = (
    ("model.replied", "agent/a", {"text": "one\ntwo", "calls": [{"tool": "read", "arguments": {"path": "a"}}]}),
    ("model.replied", "agent/a", {"text": "", "calls": []}),
    ("call.settled", "agent/a", {"tool": "shell", "result": RESULT, "trace": {"seconds": 2.5, "tries": 2}}),
    ("call.settled", "agent/a", {"tool": "read", "result": {"state": "Succeeded"}, "cached": True}),
    ("call.settled", "agent/a", {"tool": "sh", "result": {"state": "Denied"}, "violated": {"a": "agent/b", "b": "c"}}),
    ("call.settled", "task/a", {"result": RESULT}),
    ("call.waiting", "agent/a", {"tool": "edit", "why": "lock a is held\nmore"}),
    ("call.waiting", "agent/a", {"tool": "edit"}),
    ("check.ran", "task/a", {"check": "0", "result": "fail", "message": "a\nb"}),
    ("message.sent", "agent/a", {"message": MESSAGE}),
    ("message.delivered", "agent/a", {"body": {"text": "hello"}}),
    ("message.sent", "agent/a", {"message": {"sender": "a", "body": {"conflict": "over", "key": "c/1", "why": "x"}}}),
    ("message.sent", "hook/h", {"point": "before-call", "to": "agent/h"}),
    ("timer.fired", "agent/a", {"name": "t", "after": 3}),
)


def _record(*steps: tuple[str, str, JsonObject], changes: tuple[Change, ...] = ()) -> Record:
    (type_, subject, data), *also = steps
    more = tuple(SubRecord(*one) for one in also)
    return Record(7, 100.0, 1, RecordDraft(type_, "controller:x", subject, changes, data=data, also=more))


def _records() -> Iterator[JsonObject]:
    """Records with the texts of their steps: each type alone, and several steps of one object."""
    state = product.SetStatus("task/a", Uid("u"), {"state": "running", "why": "its command runs"})
    found = [_record(one) for one in STEPS]
    found += [_record(("task.changed", "task/a", {}), changes=(state,))]
    found += [_record(("object.deleted", "task/a", {"x": 1}), changes=(product.Mark("task/a", Uid("u"), True, None),))]
    found += [_record(("x", "task/a", {"n": 1}), ("y", "task/b", {"n": 2}), ("z", "task/a", {}), changes=(state,))]
    for one in found:
        words = [records.record_words(each.draft) for each in records.expand_record(one)]
        yield {"record": record_to_json(one), "words": words}


def _exits(item: Resource) -> list[str]:
    bad = (one for one in conditions_of_status(item.status).values() if object_tables.is_bad(one))
    return list(dict.fromkeys(line for one in bad for line in one.unblocks))


def _said(holders: JsonObject) -> str:
    locks = [_resource(f"lock/{path}", {}, {"holders": held}) for path, held in holders.items()]
    (item,) = render_locks.with_current_holders([_resource("task/b", {}, {"why": HELD})], locks)
    return str(item.status["why"])


@pytest.mark.parametrize(("name", "made"), [("fold", lambda: list(_folded())), ("words", _worded)])
def test_the_corpus_of_the_page_is_what_the_product_does(name: str, made: Any, is_updating: bool) -> None:
    path: Path = CORPUS / f"{name}.json"
    found = json.loads(json.dumps(made()))
    if is_updating:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")
    assert json.loads(path.read_text()) == found, "run `make docs`, then `npx vitest run` in web"


def test_the_corpus_has_every_sort_of_change() -> None:
    sorts = {next(iter(change)) for step in _folded() for change in step["record"]["changes"]}

    assert sorts == {"put", "patch", "status", "mark", "move", "drop"}
