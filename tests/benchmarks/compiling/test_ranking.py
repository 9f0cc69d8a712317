"""Decoys are chosen by rank: near and far, the same for a seed for ever, and hardly moved by a pool that grows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planloop.benchmarks.runs.run_compiler import draw_decoys, tool_name_words

WORDS = st.sampled_from(("mail", "send", "event", "events", "update", "song", "play", "weather"))
NAMES = st.builds("{}.{}".format, WORDS, WORDS)
NEEDED = ("calendar.updateEvent", "mail.send")


def picked(pool: list[str], *, pick: int, near: int, case: str = "c") -> set[str]:
    drawn = draw_decoys(1, case, pool, NEEDED, pick=pick, near=near)
    return {*drawn.near, *drawn.far}


def test_near_tools_share_a_verb_or_a_noun_with_one_that_is_needed() -> None:
    pool = ["calendar.list", "song.play", "todo.update_all", "event_log.read", "mail.send", "mailbox.open"]
    drawn = draw_decoys(1, "c", pool, NEEDED, pick=9, near=9)
    assert sorted(drawn.near) == ["calendar.list", "event_log.read", "todo.update_all"]
    assert sorted(drawn.far) == ["mailbox.open", "song.play"]
    assert tool_name_words("mail.sendAll_v2") == {"mail", "send", "all", "v", "2"}


def test_seed_and_case_give_the_same_order_forever() -> None:
    pool = [f"tool.t{number}" for number in range(20)]
    assert list(draw_decoys(1337, "move", pool, ("mail.send",), pick=3, near=0).far) == [
        "tool.t1",
        "tool.t6",
        "tool.t15",
    ]
    assert picked(pool, pick=3, near=0) != picked(pool, pick=3, near=0, case="d")


@given(st.lists(NAMES, unique=True, max_size=12), NAMES, st.integers(0, 6), st.integers(0, 6))
def test_a_tool_that_is_added_takes_the_place_of_at_most_one(pool: list[str], new: str, pick: int, near: int) -> None:
    before, after = picked(pool, pick=pick, near=near), picked([*pool, new], pick=pick, near=near)
    assert len(before - after) <= 1
    assert after - before <= {new}
    assert len(before) == min(pick, len(set(pool) - set(NEEDED)))


@given(st.permutations([f"mail.t{number}" for number in range(8)] + [f"song.t{number}" for number in range(8)]))
def test_the_order_of_a_pool_does_not_count(pool: list[str]) -> None:
    drawn = draw_decoys(1, "c", pool, NEEDED, pick=6, near=4)
    assert drawn == draw_decoys(1, "c", sorted(pool), NEEDED, pick=6, near=4)
    assert (len(drawn.near), len(drawn.far)) == (4, 2)
