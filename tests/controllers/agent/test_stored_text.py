"""Agents keep encoding, byte order mark, line ends, mode, owner and links of the files that they change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planloop.controllers.agent.tools.files import text_difference
from planloop.reconciler.effects.truncate import truncate_output
from tests import rows
from tests.controllers.agent.arena import Arena, arena
from tests.product import Json
from tests.rights import without_rights

pytestmark = pytest.mark.anyio


def call(tool: str, **arguments: Json) -> str:
    return f"call: {json.dumps({tool: arguments})}"


async def run(here: Arena, *steps: str, tools: str = "read, write, edit, search, shell") -> str:
    script = "\n".join(f"    - {step}" for step in (*steps, "done: x"))
    await here.apply(f"agent:\n  tools: [{tools}]\n  script:\n{script}\n")
    await here.until_state("task/.", "done", "failed")
    await here.settled()
    return here.state("task/.")


READ = call("read", path="a")

EDITED = (
    (b"one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "uno\ndos\n", b"uno\r\ndos\r\nthree\r\n"),
    (b"one\rtwo\rthree", "two\nthree", "2\n3", b"one\r2\r3"),
    (b"\xef\xbb\xbfone\r\ntwo\r\n", "two", "2\n3", b"\xef\xbb\xbfone\r\n2\r\n3\r\n"),
    ("é one\r\n".encode("utf-16"), "one\n", "zwei ✓\n", "é zwei ✓\r\n".encode("utf-16")),
    (b"caf\xe9 one\n", "é one", "é zwei ü", b"caf\xe9 zwei \xfc\n"),
    ("日本語\none\n".encode("cp932"), "one", "二", "日本語\n二\n".encode("cp932")),
)


async def test_an_edit_keeps_line_ends_mark_and_encoding(tmp_path: Path) -> None:
    steps = []
    for number, (content, old, new, _) in enumerate(EDITED):
        (tmp_path / f"{number}").write_bytes(content)
        steps += [call("read", path=f"{number}"), call("edit", path=f"{number}", old=old, new=new)]
    async with arena(tmp_path) as here:
        assert await run(here, *steps) == "done"
    assert [(tmp_path / f"{n}").read_bytes() for n in range(len(EDITED))] == [wanted for *_, wanted in EDITED]


async def test_overwriting_a_file_keeps_how_it_is_stored_and_reports_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("é one\r\ntwo\r\n".encode("utf-16"))
    (tmp_path / "b").write_bytes(b"one\ntwo\n")
    async with arena(tmp_path) as here:
        steps = (
            READ,
            "expect: UTF-16 LE",
            call("write", path="a", content="é one\n2\n"),
            "expect: with UTF-16 LE and CRLF line ends as before",
            call("read", path="b"),
            call("write", path="b", content="one\r\n2\r\n"),
            "expect: its line ends are CRLF now, they were LF",
        )
        assert await run(here, *steps) == "done"
    assert (tmp_path / "a").read_bytes() == "é one\r\n2\r\n".encode("utf-16")
    assert (tmp_path / "b").read_bytes() == b"one\r\n2\r\n"


async def test_text_that_a_file_cannot_store_is_rejected_and_the_file_unchanged(tmp_path: Path) -> None:
    latin, torn = b"caf\xe9 one\n", "é ü ä ö\n".encode() + b"bad \xe9\n"
    (tmp_path / "a").write_bytes(latin)
    (tmp_path / "b").write_bytes(torn)
    async with arena(tmp_path) as here:
        steps = (
            READ,
            call("write", path="a", content="caf\ufffd hello"),
            "expect: {error: NotStorable, contains: U+FFFD}",
            call("edit", path="a", old="one", new="✓"),
            "expect: {error: NotStorable, contains: Windows-1252}",
            call("read", path="b"),
            "expect: 'bad \\xe9'",
            call("write", path="b", content="bad \\xe9"),
            "expect: {error: NotStorable}",
            call("edit", path="b", old="bad", new="good"),
        )
        assert await run(here, *steps) == "done"
    assert (tmp_path / "a").read_bytes() == latin
    assert (tmp_path / "b").read_bytes() == torn.replace(b"bad", b"good")


async def test_a_binary_file_is_named_with_its_size_and_never_written_over(tmp_path: Path) -> None:
    small, large = os.urandom(50_000), b"\0\1\2\3" * 800_000
    (tmp_path / "a").write_bytes(small)
    (tmp_path / "b").write_bytes(large)
    (tmp_path / "text").write_bytes(b"line of text\n" * 100_000)
    async with arena(tmp_path) as here:
        steps = (
            READ,
            "expect: {error: Binary, contains: 48.8 KiB}",
            call("write", path="a", content="text"),
            "expect: {error: Binary}",
            call("edit", path="a", old="x", new="y"),
            "expect: {error: NotRead}",
            call("read", path="b"),
            "expect: {error: Binary, contains: 3.1 MiB}",
            call("read", path="text"),
            "expect: {error: TooLarge}",
        )
        assert await run(here, *steps) == "done"
    assert (tmp_path / "a").read_bytes() == small and (tmp_path / "b").read_bytes() == large


async def test_an_agent_may_replace_the_control_characters_that_it_wrote_itself(tmp_path: Path) -> None:
    async with arena(tmp_path) as here:
        steps = (call("write", path="a", content="\0\1"), call("write", path="a", content="text"))
        assert await run(here, *steps) == "done"
    assert (tmp_path / "a").read_text() == "text"


async def test_a_search_finds_text_in_every_encoding_with_the_line_numbers_that_read_has(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("one\x0c\nfür\n".encode("latin-1"))
    (tmp_path / "b").write_bytes("one\rfür\r".encode("utf-16"))
    (tmp_path / "c").write_bytes(b"\0\1\2f\xc3\xbcr")
    async with arena(tmp_path) as here:
        assert await run(here, call("search", text="für"), call("read", path="a", first=2), "expect: für") == "done"
        (found,) = await here.results("search")
        assert found["text"] == "a:2: für\nb:2: für"


async def test_file_with_changed_line_ends_only_is_distinguished(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    async with arena(tmp_path) as here:
        steps = (
            READ,
            call("shell", command="printf 'one\\r\\ntwo\\r\\n' > a"),
            call("edit", path="a", old="two", new="2"),
            "expect: {error: Changed, contains: CRLF}",
            call("edit", path="a", old="two", new="2"),
        )
        assert await run(here, *steps) == "done"
    assert (tmp_path / "a").read_bytes() == b"one\r\n2\r\n"


async def test_reading_past_the_end_gives_the_number_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("")
    async with arena(tmp_path) as here:
        steps = (call("read", path="a", first=9), "expect: has 2 lines", call("read", path="b"))
        assert await run(here, *steps) == "done"


async def test_write_keeps_mode_attributes_and_the_link_in_its_path(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("one")
    (tmp_path / "real").chmod(0o751)
    (tmp_path / "a").symlink_to("real")
    async with arena(tmp_path) as here:
        assert await run(here, READ, call("edit", path="a", old="one", new="two")) == "done"
    assert (tmp_path / "a").is_symlink() and (tmp_path / "real").read_text() == "two"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o751


async def test_all_names_of_a_file_keep_one_content_if_the_agent_may_write_each(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one, and more")
    (tmp_path / "sub").mkdir()
    os.link(tmp_path / "a", tmp_path / "sub/b")
    async with arena(tmp_path) as here:
        assert await run(here, READ, call("edit", path="a", old="one, and more", new="two")) == "done"
    assert (tmp_path / "sub/b").read_text() == "two" and (tmp_path / "a").samefile(tmp_path / "sub/b")
    assert sorted(each.name for each in tmp_path.iterdir() if each.name[0] != ".") == ["a", "sub"]


async def test_unwritable_name_of_a_file_keeps_the_old_content(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    (folder / "sub").mkdir(parents=True)
    for name, other in (("a", folder / "sub/b"), ("c", tmp_path / "store")):
        (folder / name).write_text("one")
        os.link(folder / name, other)
    async with arena(folder) as here:
        steps = (READ, call("edit", path="a", old="one", new="two"))
        more = (call("read", path="c"), call("edit", path="c", old="one", new="two"))
        assert await run(here, *steps, *more, tools="read, 'edit(a)', 'edit(c)'") == "done"
    assert (folder / "a").read_text() == (folder / "c").read_text() == "two"
    assert (folder / "sub/b").read_text() == (tmp_path / "store").read_text() == "one"


async def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "a").chmod(0o444)
    async with arena(tmp_path) as here:
        with without_rights():
            steps = (READ, call("edit", path="a", old="one", new="two"), "expect: {error: NotWritable}")
            assert await run(here, *steps) == "done"
    assert (tmp_path / "a").read_text() == "one"


DIFFERENCES = (
    (b"a\n", b"\xef\xbb\xbfa\n", "byte order mark"),
    ("é\n".encode(), "é\n".encode("latin-1"), "Windows-1252"),
    (b"a\n", b"\0\1\2\3", "text, 2 B to binary, 4 B"),
    (b"a\n", b"a", "no line end at the end"),
)


@rows.each(("old", "new", "words"), DIFFERENCES)
def test_invisible_difference_is_described_in_words(old: bytes, new: bytes, words: str) -> None:
    assert words in text_difference(old, new, "f")


@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_file_converted_by_a_command_is_reported_as_changed(tmp_path: Path, tool: str) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9 one\n")
    change = {"old": "one", "new": "→"} if tool == "edit" else {"content": "café →\n"}
    convert = "iconv -f latin1 -t utf-8 a > b && mv b a"
    steps = (READ, call("shell", command=convert), call(tool, path="a", **change), "expect: {error: Changed}")
    async with arena(tmp_path) as here:
        assert await run(here, *steps, call(tool, path="a", **change), "expect: ok") == "done"
    assert (tmp_path / "a").read_text() == "café →\n"


def test_clamping_cuts_no_character() -> None:
    for size in range(60, 66):
        assert "\ufffd" not in truncate_output("✓".encode() * 1_000, size)
