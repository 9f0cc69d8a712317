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
