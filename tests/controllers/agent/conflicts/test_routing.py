"""The judge of a conflict, for any tree, any two agents in it, and any subset of ancestors that can answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.conflicts import decide
from planloop.controllers.agent.conflicts.decide import ConflictRest, RouteConflict, decide_conflict
from planloop.schemas import limits
from planloop.schemas.address import agent_address, parse_address, task_address
from planloop.schemas.objects.conflict import PERSON, ConflictParty, ConflictSpec, ConflictStatus
from planloop.schemas.rights import Rights
from tests.product import JsonObject, MemoryView, Resource, Uid

Path = tuple[str, ...]
NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, max_size=5).map(tuple)
WHYS = ("", "parked", "done", "paused", "denied", "gone", "leaving", "claimed over")


def objects(path: Path, why: str = "") -> list[Resource]:
    """A task and its agent; `why` it could not rule, empty when it could."""
    rights = Rights(deny=("resolve",)).to_json() if why == "denied" else Rights().to_json()
    spec: JsonObject = {"task": str(task_address(*path)), "rights": rights, "talk_to": ["parent"]}
    status: JsonObject = {"state": "parked" if why == "parked" else "asleep", "incarnation": 1}
    task_spec: JsonObject = {"pause": why == "paused", "needs": []}
    state: JsonObject = {"state": "done" if why == "done" else "running"}
    if why == "claimed over":
        state["stage"] = "done"
    at = str(agent_address(*path))
    made = [Resource(str(task_address(*path)), Uid(f"t{path}"), 1, task_spec, state)]
    if why != "gone":
        made.append(Resource(at, Uid(f"a{path}"), 1, spec, status, deleting=why == "leaving"))
    return made


def above(one: Path, other: Path) -> list[Path]:
    """Every place strictly above both, the lowest first."""
    return [one[:depth] for depth in reversed(range(len(one))) if one[:depth] == other[:depth] and depth < len(other)]


@given(one=PATHS, other=PATHS, whys=st.dictionaries(PATHS, st.sampled_from(WHYS)))
def test_conflict_goes_to_the_lowest_able_common_ancestor_or_an_operator(
    one: Path, other: Path, whys: dict[Path, str]
) -> None:
    places = {each[:depth] for each in (one, other) for depth in range(len(each) + 1)}
    view = MemoryView(each for place in sorted(places) for each in objects(place, whys.get(place, "")))
    able = [place for place in above(one, other) if not whys.get(place, "")]
    expected = str(agent_address(*able[0])) if able else PERSON
    assert (
        decide.nearest_able(view, decide.nearest_ancestor(str(agent_address(*one)), str(agent_address(*other))))
        == expected
    )


@given(one=PATHS, other=PATHS, whys=st.dictionaries(PATHS, st.sampled_from(WHYS)))
def test_escalation_reaches_an_operator_after_two_steps_and_never_a_party(
    one: Path, other: Path, whys: dict[Path, str]
) -> None:
    places = {each[:depth] for each in (one, other) for depth in range(len(each) + 1)}
    whys |= {one: "", other: ""}
    view = MemoryView(each for place in sorted(places) for each in objects(place, whys.get(place, "")))
    spec = ConflictSpec(str(agent_address(*one)), str(agent_address(*other)), "contest")
    seen = [decide.nearest_able(view, decide.nearest_ancestor(*spec.parties))]
    while seen[-1] != PERSON:
        seen.append(decide.next_able_above(view, seen[-1]))
    depths = [len(parse_address(each).path) for each in seen[:-1]]
    assert depths == sorted(set(depths), reverse=True)
    assert not set(seen) & set(spec.parties)
    assert all(decide.is_ancestor_of_both(each, *spec.parties) for each in seen[:-1])


def standing(before: str, raised: int, due_at: float | None) -> tuple[MemoryView, ConflictSpec, ConflictStatus]:
    """A conflict between two children of `a`, which is below the root; the holder has the file."""
    made = [each for path in ((), ("a",), ("a", "x"), ("a", "y")) for each in objects(path)]
    holder = {"owner": "agent/a/y", "uid": str(Uid(f"a{('a', 'y')}")), "incarnation": 1, "mode": "write"}
    grant = holder | {"since": 0.0, "fence": 1, "kept": "asked"}
    made.append(Resource("lock/f", Uid("l"), 1, {"path": "f"}, {"holders": {"agent/a/y": grant}}))
    parties = {each: ConflictParty(each, f"a{parse_address(each).path}", 1) for each in ("agent/a/x", "agent/a/y")}
    status = ConflictStatus("open", ("f",), parties, 0.0, before, 1 if before else 0, raised, due_at)
    return MemoryView(made), ConflictSpec("agent/a/x", "agent/a/y", "contest"), status


def test_unresponsive_judge_is_passed_over_twice_at_most() -> None:
    assert decide_conflict(*standing("", 0, None), 1.0) == RouteConflict("agent/a", 0, "")
    first = decide_conflict(*standing("agent/a", 0, 90.0), 90.0)
    assert isinstance(first, RouteConflict)
    assert (first.to, first.raised) == ("agent/.", 1)
    second = decide_conflict(*standing("agent/.", 1, 180.0), 180.0)
    assert isinstance(second, RouteConflict)
    assert (second.to, second.raised) == (PERSON, limits.CONFLICT_RAISED_MAX)
    assert decide_conflict(*standing(PERSON, 2, None), 1e9) == ConflictRest(None)


def test_before_its_time_is_over_nothing_happens() -> None:
    assert decide_conflict(*standing("agent/a", 0, 90.0), 89.0) == ConflictRest(90.0)
