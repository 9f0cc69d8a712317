"""Several steps as one record: squashed changes have the same fold as the original ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.batch import WriteBatch, squash_changes
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.reconciler.store.store import Store
from planloop.schemas.log import record as records
from tests.product import (
    Change,
    Drop,
    JsonObject,
    Mark,
    MemoryView,
    Move,
    Put,
    Record,
    RecordDraft,
    Resource,
    SetStatus,
    Uid,
)

# Two objects at each of two addresses, one after the other: a uid is one object's, and never another's.
objects = st.sampled_from([("call/a", Uid("u")), ("call/a", Uid("v")), ("call/b", Uid("w")), ("call/b", Uid("x"))])
merges: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.sampled_from("xy"), st.one_of(st.none(), st.integers(0, 2), st.just({"z": 1}), st.just({"z": None}))
)
puts = st.builds(lambda one, status: Put(one[0], one[1], {}, status=status), objects, merges)
changes = st.lists(
    st.one_of(
        puts,
        st.builds(lambda one, merge: SetStatus(one[0], one[1], merge), objects, merges),
        objects.map(lambda one: Mark(*one, deleting=True)),
        objects.map(lambda one: Drop(*one)),
    ),
    max_size=8,
)


def folded(objects: dict[str, Resource], said: tuple[Change, ...]) -> dict[str, Resource]:
    after = dict(objects)
    records.fold_record(after, Record(2, 0.0, 1, RecordDraft("call.settled", "controller:agent", "agent/.", said)))
    return after


def _is_missing(objects: Mapping[str, Resource], address: str) -> bool:
    return address not in objects


@given(puts, changes)
def test_fewer_changes_have_the_same_fold(known: Put, said: list[Change]) -> None:
    for before in (dict[str, Resource](), folded({}, (known,))):
        assert folded(before, squash_changes(said, partial(_is_missing, before))) == folded(before, tuple(said))


class _Store:
    """The part of a store that steps use before they are proposed."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view


owned = st.builds(
    lambda one, owner, refs: Put(one[0], one[1], {}, tuple(refs), owner),
    objects,
    st.sampled_from([None, "agent/a", "agent/b"]),
    st.lists(st.sampled_from(["task/a", "task/b"]), unique=True),
)
rewriting = st.lists(
    st.one_of(
        owned,
        st.builds(lambda one, merge: SetStatus(one[0], one[1], merge), objects, merges),
        objects.map(lambda one: Drop(*one)),
        objects.map(lambda one: Move(*one, "call/c")),
    ),
    max_size=6,
)


@given(st.lists(owned, max_size=3), st.lists(rewriting, max_size=3))
def test_view_ahead_equals_the_view_once_it_is_written(known: list[Change], said: list[list[Change]]) -> None:
    view = MemoryView()
    view.fold(Record(1, 0.0, 1, _draft(known)))
    ahead = WriteBatch(cast("Store", _Store(view)))
    for each in said:
        ahead.add("agent/.", _draft(each))

    then = MemoryView(view.everything(), view.rev)
    for each in said:
        then.fold(Record(view.rev, 0.0, 1, _draft(each)))
    for address in ("call/a", "call/b", "call/c"):
        assert ahead.get(address) == then.get(address)
    assert ahead.list("call") == then.list("call")
    for owner in ("agent/a", "agent/b"):
        assert ahead.owned_by(owner) == then.owned_by(owner)
    for named in ("task/a", "task/b"):
        assert sorted(ahead.referrers(named)) == sorted(then.referrers(named))


def _draft(said: list[Change]) -> RecordDraft:
    return RecordDraft("call.settled", "controller:agent", "agent/.", tuple(said))


def test_steps_of_one_record_do_not_wait_between_them() -> None:
    apart = [tool for tool in BUILT_IN_TOOLS.values() if tool.is_apart]
    assert apart
    assert all(tool.is_instant for tool in apart)
