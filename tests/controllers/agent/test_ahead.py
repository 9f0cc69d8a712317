"""Several steps as one record: whatever is said at once in place of several changes has the same fold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from controllers.agent.ahead import squashed
from controllers.agent.tools.registry import BUILT_IN
from schemas import record as records
from schemas.encoding import JsonObject
from schemas.record import Change, Draft, Drop, Mark, Put, Record, SetStatus
from schemas.resource import Resource, Uid

HERE = ("call/a", "call/b")
uids = st.sampled_from([Uid("u"), Uid("v")])
merges: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.sampled_from("xy"), st.one_of(st.none(), st.integers(0, 2), st.just({"z": 1}), st.just({"z": None}))
)
puts = st.builds(lambda at, uid, status: Put(at, uid, {}, status=status), st.sampled_from(HERE), uids, merges)
changes = st.lists(
    st.one_of(
        puts,
        st.builds(SetStatus, st.sampled_from(HERE), uids, merges),
        st.builds(lambda at, uid: Mark(at, uid, deleting=True), st.sampled_from(HERE), uids),
        st.builds(Drop, st.sampled_from(HERE), uids),
    ),
    max_size=8,
)


def folded(objects: dict[str, Resource], said: tuple[Change, ...]) -> dict[str, Resource]:
    after = dict(objects)
    records.fold(after, Record(2, 0.0, 1, Draft("call.settled", "controller:agent", "agent/.", said)))
    return after


def _is_missing(objects: Mapping[str, Resource], address: str) -> bool:
    return address not in objects


@given(puts, changes)
def test_fewer_changes_have_the_same_fold(known: Put, said: list[Change]) -> None:
    for before in (dict[str, Resource](), folded({}, (known,))):
        assert folded(before, squashed(said, partial(_is_missing, before))) == folded(before, tuple(said))


def test_nothing_is_waited_for_between_the_steps_of_one_record() -> None:
    apart = [tool for tool in BUILT_IN.values() if tool.is_apart]
    assert apart
    assert all(tool.is_instant for tool in apart)
