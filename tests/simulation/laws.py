"""The laws of docs/contribute/architecture.md, asked of a story while it runs and when it is over."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from planloop.reconciler.engine.engine import Engine
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from tests.product import MemoryView, Put, Record, Resource, SetStatus


def check_intent_before_effect(store: SqliteStore, op: str) -> None:
    """Law 5: when a call's process begins, the call is Started and durable."""
    for call in store.view.list("call"):
        if call.spec["op"] == op:
            assert call.state == "Started", f"{call.address} begins while it is {call.state}"
            assert call.rev <= store.durable_rev, f"{call.address} begins before its record is durable"


async def check_second_reconcile_writes_nothing(store: SqliteStore, work: WorkPools, engine: Engine) -> None:
    """Law 3: everything reconciled once more, with nothing changed, changes nothing."""
    rev = store.view.rev
    for one in store.view.everything():
        work.poke(one.address)
    await engine.until_quiescent()
    written = [record.draft for record in await store.log(rev, 100)]
    assert store.view.rev == rev, f"a second reconcile wrote {written}"


def check_log(log: Sequence[Record], objects: Mapping[str, Resource]) -> None:
    """Law 1: revisions without gaps, epochs that only rise, and a fold that gives the very objects of the end."""
    assert [record.rev for record in log] == list(range(1, len(log) + 1))
    epochs = [record.epoch for record in log]
    assert epochs == sorted(epochs)
    view = MemoryView()
    for record in log:
        view.fold(record)
    assert {one.address: one for one in view.everything()} == dict(objects)


def check_no_once_effect_ran_twice(log: Sequence[Record], began: Sequence[str]) -> None:
    """Law 5: however often a call of class `once` was started, its process began at most once.

    One more for every time that a person said of it that it had not happened.
    """
    assert len(set(began)) == len(began), "an operation began twice"
    ops: dict[str, list[str]] = defaultdict(list)
    denials: Counter[str] = Counter()
    for record in log:
        for change in record.draft.changes:
            match change:
                case Put(address=address, uid=uid) if address.startswith("call/") and change.spec["effect"] == "once":
                    ops[uid].append(change.spec["op"])
                case SetStatus(uid=uid) if record.draft.actor == "human:cli" and change.merge["state"] == "Authorized":
                    denials[uid] += 1
    for call, tried in ops.items():
        really = set(tried) & set(began)  # One whose arguments a hook changed before it began was put twice.
        assert len(really) <= 1 + denials[call], f"call {call} of class once began {len(really)} times: {really}"


def has_happened(folder: Path, call: Resource) -> bool:
    """Whether the effect of a call with an unknown outcome is visible: its command is `…; echo NAME >> FILE`."""
    command = call.spec["arguments"].get("shell") or call.spec["arguments"].get("command") or ""
    _, _, effect = command.rpartition("echo ")
    name, _, file = effect.partition(" >> ")
    path = folder / file.strip()
    return path.exists() and name.strip() in path.read_text().split()
