"""The file tools: an agent cannot overwrite a version of a file that it has not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.controllers.agent.tools.files import text_difference
from planloop.reconciler.effects.truncate import truncate_output
from tests.controllers.agent.arena import Arena, arena
from tests.golden_text import said

pytestmark = pytest.mark.anyio


async def run(here: Arena, script: str, *, more: str = "") -> str:
    lines = "\n".join(f"    - {line}" for line in script.strip().splitlines())
    await here.apply(f"agent:\n  tools: [read, write, edit, list, search, shell]\n  script:\n{lines}\n{more}")
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


async def test_a_file_that_was_not_read_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("theirs")
    async with arena(tmp_path) as here:
        script = """
call: {write: {path: a.txt, content: mine}}
expect: {error: NotRead}
call: {edit: {path: a.txt, old: theirs, new: mine}}
expect: {error: NotRead}
call: {read: {path: a.txt}}
expect: theirs
call: {write: {path: a.txt, content: mine}}
expect: ok
done: x
"""
        assert await run(here, script) == "done"
        assert here.read("a.txt") == "mine"


async def test_file_that_changed_since_its_read_is_not_written_and_the_diff_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with arena(tmp_path) as here:
        script = """
call: {read: {path: a.txt}}
call: {shell: {command: "printf 'one\\\\nTWO\\\\n' > a.txt"}}
call: {write: {path: a.txt, content: mine}}
expect: {error: Changed, contains: +TWO}
call: {write: {path: a.txt, content: mine}}
expect: ok
done: x
"""
        assert await run(here, script) == "done"


async def test_an_edit_that_has_happened_since_the_file_was_read_is_done(tmp_path: Path) -> None:
    """As when the owner died before the edit was recorded."""
    (tmp_path / "a.txt").write_text("one")
    async with arena(tmp_path) as here:
        script = """
call: {read: {path: a.txt}}
call: {shell: {command: "printf two > a.txt"}}
call: {edit: {path: a.txt, old: one, new: two}}
expect: was already edited
call: {edit: {path: a.txt, old: two, new: three}}
expect: ok
done: x
"""
        assert await run(here, script) == "done"
        assert here.read("a.txt") == "three"


async def test_an_own_write_counts_as_having_read(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
call: {write: {path: a.txt, content: one two}}
call: {edit: {path: a.txt, old: two, new: three}}
call: {write: {path: a.txt, content: four}}
done: x
"""
        assert await run(here, script) == "done"
        assert here.read("a.txt") == "four"


async def test_edit_needs_exactly_one_place_or_every_one(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
call: {write: {path: a.txt, content: x x y}}
call: {edit: {path: a.txt, old: x, new: z}}
expect: {error: NoMatch, contains: 2 times}
call: {edit: {path: a.txt, old: q, new: z}}
expect: {error: NoMatch}
call: {edit: {path: a.txt, old: x, new: z, every: true}}
expect: ok
done: x
"""
        assert await run(here, script) == "done"
        assert here.read("a.txt") == "z z y"


async def test_two_agents_on_one_file_do_not_overwrite_each_other(tmp_path: Path) -> None:
    (tmp_path / "shared.txt").write_text("start\n")
    async with arena(tmp_path) as here:
        await here.apply("""
            tasks:
              one:
                agent:
                  tools: [read, write]
                  script:
                    - call: {read: {path: shared.txt}}
                    - {say: {to: two, text: read}}
                    - {when: {message: written}, say: now}
                    - call: {write: {path: shared.txt, content: of one}}
                    - expect: {error: Changed, contains: of two}
                    - done: told
                  topology: {talk-to: [two]}
              two:
                agent:
                  tools: [read, write]
                  topology: {talk-to: [one]}
                  script:
                    - {when: {message: read}, call: {read: {path: shared.txt}}}
                    - call: {write: {path: shared.txt, content: of two}}
                    - expect: ok
                    - {say: {to: one, text: written}}
                    - done: wrote
        """)
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert here.read("shared.txt") == "of two"


async def test_escapes_are_denied_and_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path.parent)
    (tmp_path / "arena.plan.yaml").write_text("the file")
    async with arena(tmp_path) as here:
        script = """
call: {write: {path: ../out.txt, content: x}}
expect: {error: Denied}
call: {read: {path: /etc/hostname}}
expect: {error: Denied}
call: {write: {path: link/pwned.txt, content: x}}
expect: {error: Denied}
call: {read: {path: /proc/self/environ}}
expect: {error: Denied}
call: {write: {path: .git/config, content: x}}
expect: {error: Denied}
call: {write: {path: .plan/x, content: x}}
expect: {error: Denied}
done: x
"""
        assert await run(here, script, more="cwd: work") == "done"
        assert not (tmp_path / "out.txt").exists() and not (tmp_path.parent / "pwned.txt").exists()


async def test_the_plan_file_is_not_an_agents_to_write(tmp_path: Path) -> None:
    (tmp_path / "arena.plan.yaml").write_text("the file")
    async with arena(tmp_path) as here:
        script = """
call: {read: {path: arena.plan.yaml}}
call: {write: {path: arena.plan.yaml, content: mine}}
expect: {error: Denied, contains: plan file}
done: x
"""
        assert await run(here, script) == "done"
        assert here.read("arena.plan.yaml") == "the file"


async def test_reading_shows_ranges_listing_sizes_and_searching_places(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 50)))
    async with arena(tmp_path) as here:
        script = """
call: {read: {path: a.txt, first: 10, lines: 2}}
expect: {contains: line 11, not: line 12}
call: {list: {glob: "*.txt"}}
expect: a.txt
call: {search: {text: line 42}}
expect: "a.txt:42: line 42"
call: {read: {path: absent}}
expect: {error: NotFound}
done: x
"""
        assert await run(here, script) == "done"


async def test_long_output_is_clamped_to_head_and_tail_and_kept_whole(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        assert await run(here, "call: {shell: {command: seq 20000}}\ndone: x") == "done"
        (result,) = await here.results("shell")
        assert len(result["text"]) < 9_000
        assert result["text"].startswith("1\n2\n") and result["text"].endswith("19999\n20000\n")
        blob = here.store.get_blob(result["blob"])
        assert blob is not None and blob.count(b"\n") == 20_000


async def test_a_command_sees_a_clean_environment_and_its_time_is_bounded(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        script = """
call: {shell: {command: "env | cut -d= -f1 | sort | tr '\\\\n' ' '"}}
call: {shell: {command: sleep 30, timeout: 0.2}}
expect: {error: TimedOut}
done: x
"""
        assert await run(here, script, more="env: {OWN: v, PLANLOOP_OP: forged}") == "done"
        names = set((await here.results("shell"))[0]["text"].split())
        ours = {name for name in names if name.startswith(("PLANLOOP_", "GIT_CONFIG_"))}
        assert "GIT_CONFIG_COUNT" in ours and names - ours - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "OWN"}


def test_clamping_keeps_short_texts_and_cuts_long_ones_at_lines() -> None:
    assert truncate_output(b"short") == "short"
    long = "\n".join(str(number) for number in range(10_000)).encode()
    cut = truncate_output(long, 200)
    assert cut.startswith("0\n1\n") and cut.endswith("9999") and "left out" in cut


def test_diff_of_huge_files_is_a_sentence() -> None:
    old, new = b"a\n" * 5_000, b"b\n" * 5_000
    said(text_difference(old, new, "f"))
    assert "not stored" in text_difference(None, b"x", "f")
