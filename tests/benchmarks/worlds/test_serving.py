"""Worlds as a plan's servers call them: what is kept of an agent's world, and what bounds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.benchmarks.worlds.servers import ServedWorlds
from planloop.benchmarks.worlds.state import call_tool, restore_changes, world_differences
from planloop.schemas import limits
from planloop.schemas.objects.mcp import ServerFailed
from tests import sets
from tests.benchmarks.worlds.making import EXTREMES, SUITE, shipped
from tests.golden_text import said
from tests.product import CallState, Json, JsonObject, merge_values

FILES = ("worlds/office.yaml", "worlds/shop.yaml", "tools/decoys.yaml")
WORLDS = {file: shipped(file) for file in FILES}
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(("", "evt-12", "msg-30", "ord-100", "inbox", "2030-01-02T15:00:00Z", "a@b.c", "$id", "x")),
    st.text(max_size=3),
    st.sampled_from(EXTREMES),
)
ANY = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
)


SERVED = ServedWorlds(lambda file: (SUITE / file).read_bytes())


@settings(max_examples=sets.examples(50, 25))
@given(st.data())
def test_tool_answers_any_call_and_the_stored_state_is_the_world(data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(FILES))
    world, worlds = WORLDS[file], SERVED
    start, kept = world, dict[str, Json]()
    for _ in range(data.draw(st.integers(1, 4))):
        tool = data.draw(st.sampled_from(sorted(world.tools)))
        names = sorted(world.tools[tool].parameters.get("properties", {}))
        arguments = {name: data.draw(ANY) for name in names if data.draw(st.booleans())}
        world, answer = call_tool(world, tool, arguments)
        made = worlds.call(file, tool, arguments, task="a", kept=kept)
        assert (made.result.text, made.result.error) == (answer.text, answer.error)
        kept = merge_values(kept, made.merge)
    assert restore_changes(start, kept) == world
    assert world_differences(start, world, restore_changes(start, kept)) == []


def test_world_takes_a_bounded_number_of_changes() -> None:
    rows: JsonObject = {f"todo-{number}": [{"title": "x"}] for number in range(100, 100 + limits.WORLD_ROWS_KEPT_MAX)}
    made = SERVED.call(FILES[0], "todo.add", {"title": "one more"}, task="a", kept={"rows": {"todos": rows}})
    assert (made.result.state, made.merge) == (CallState.FAILED, {})
    read = SERVED.call(FILES[0], "todo.list", {}, task="a", kept={"rows": {"todos": rows}})
    assert read.result.state is CallState.SUCCEEDED
    assert len(read.result.text) <= limits.FILE_SHOWN_BYTES + 200 and read.result.value is None


def test_invalid_file_is_read_again_and_a_valid_one_is_not(tmp_path: Path) -> None:
    worlds = ServedWorlds(lambda file: (tmp_path / file).read_bytes())
    (tmp_path / "w.yaml").write_text("world: w\ntools: {a.get: {returns: $x}}\n")
    with pytest.raises(ServerFailed) as caught:
        worlds.offer("w.yaml", "a")
    said(str(caught.value), "P0213")
    (tmp_path / "w.yaml").write_text("world: w\ntools: {a.get: {returns: x}, a.put: {}}\n")
    assert [tool.name for tool in worlds.offer("w.yaml", "a").tools] == ["get", "put"]
    (tmp_path / "w.yaml").unlink()
    assert worlds.offer("w.yaml", "a").name == "w"
