"""Text of files: encodings are recognised, and an edit changes the bytes that it is about and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import file_text
from planloop.schemas.file_text import decode_file_text, line_end_style, replace_text, rewrite_text, split_lines
from tests import rows

WRITTEN = (
    ("utf-8", "naïve ✓\n", ""),
    ("cp1252", "café one\nnaïve two\n", "Windows-1252 (Latin-1)"),
    ("latin-1", "x = 'é'\n", "Windows-1252 (Latin-1)"),
    ("cp1252", "price: 5 € “quoted” don’t\n", "Windows-1252 (Latin-1)"),
    ("cp1250", "zażółć gęślą jaźń\n", "Windows-1250"),
    ("cp1251", "// Комментарий\nint x;\n", "Windows-1251"),
    ("koi8_r", "Привет, мир\n", "KOI8-R"),
    ("cp1253", "Καλημέρα κόσμε\n", "Windows-1253"),
    ("cp932", "日本語\n表示 one\n", "Shift-JIS"),
    ("cp932", "テスト\n", "Shift-JIS"),
    ("euc_jp", "こんにちは世界\n", "EUC-JP"),
    ("iso2022_jp", "日本語\nthree\n", "ISO-2022-JP"),
    ("gb18030", "你好，世界\nhello\n", "GB 18030"),
    ("big5", "繁體中文測試\n", "Big5"),
    ("cp949", "안녕하세요\nhello\n", "EUC-KR"),
    ("utf-16-le", "plain text\n", "UTF-16 LE"),
    ("utf-16-be", "plain text\n", "UTF-16 BE"),
)
MARKED = ("utf-8-sig", "utf-16", "utf-32")


@rows.each(("encoding", "text", "how"), WRITTEN)
def test_the_encoding_of_a_short_text_is_recognised(encoding: str, text: str, how: str) -> None:
    found = decode_file_text(text.encode(encoding))
    assert found is not None and (found.text, found.how) == (text, how)
    assert found.stored(text) == text.encode(encoding)


@rows.each("encoding", MARKED)
def test_byte_order_mark_is_not_text_and_is_stored_again(encoding: str) -> None:
    content = "one\r\n日本".encode(encoding)
    found = decode_file_text(content)
    assert found is not None and found.text == "one\r\n日本"
    assert found.stored(found.text) == content == found.stored("\ufeff" + found.text)


BINARY = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0",
    b"\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\x3e\0",
    b"\x1f\x8b\x08\0\0\0\0\0\0\3",
    bytes(range(256)),
    b"\0" * 100,
)


@rows.each("content", BINARY)
def test_binary_file_is_not_text(content: bytes) -> None:
    assert decode_file_text(content) is None and file_text.is_binary(content)


def test_bytes_outside_the_encoding_are_shown_escaped_and_stored_unchanged() -> None:
    content = "é ü ✓\n".encode() + b"bad \xe9 byte\n"
    found = decode_file_text(content)
    assert found is not None and found.raw_count == 1 and "bad \\xe9 byte" in found.shown
    changed = replace_text(found.text, "byte", "octet", every=False)
    assert isinstance(changed, str) and found.stored(changed) == content.replace(b"byte", b"octet")


def test_a_single_nul_in_a_text_is_part_of_the_text() -> None:
    content = b"one\0two " + b"words " * 20
    found = decode_file_text(content)
    assert found is not None and found.stored(found.text) == content


def test_a_character_that_the_encoding_does_not_have_is_named() -> None:
    latin = decode_file_text("café\n".encode("latin-1"))
    assert latin is not None and latin.unstorable("ok é ✓") == "✓" and latin.unstorable("ok é €") == ""


def test_only_line_ends_end_lines() -> None:
    assert split_lines("a\r\nb\rc\nd\x0ce\u2028f") == ["a\r\n", "b\r", "c\n", "d\x0ce\u2028f"]
    assert split_lines("") == [] and split_lines("\n\n") == ["\n", "\n"]


REPLACED = (
    ("one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "uno\ndos\n", "uno\r\ndos\r\nthree\r\n"),
    ("one\r\ntwo\r\n", "two", "two\nand a half", "one\r\ntwo\r\nand a half\r\n"),
    ("one\rtwo\rthree", "two\nthree\n", "x\ny\nz\n", "one\rx\ry\rz"),
    ("a\nb\n", "a\r\nb\r\n", "x\r\ny\r\n", "x\ny\n"),
    ("a\r\nb\nc\r\nd\n", "a\nb\nc\n", "a\nB\nnew\nc\n", "a\r\nB\nnew\nc\r\nd\n"),
    ("a\nb\r\nc\n", "b", "b\nb2", "a\nb\r\nb2\r\nc\n"),
    ("a\r\nb", "b\n", "c\nd\n", "a\r\nc\r\nd"),
    ("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
    ("no end", "no", "line\nno", "line\nno end"),
    ("10%\r20%\rdone\nx\ny\nz\n", "x", "x\nq", "10%\r20%\rdone\nx\nq\ny\nz\n"),
    ("a\r\nb\r\n", "a\nb\n", "", ""),
)


@rows.each(("text", "old", "new", "wanted"), REPLACED)
def test_an_edit_matches_over_line_ends_and_keeps_those_of_the_file(text: str, old: str, new: str, wanted: str) -> None:
    assert replace_text(text, old, new, every=False) == wanted


def test_an_exact_match_comes_before_one_with_other_line_ends() -> None:
    assert replace_text("a\r\na\n", "a\n", "b\n", every=False) == "a\r\nb\n"
    assert replace_text("a\r\na\r\n", "a\n", "b\n", every=False) == 2
    assert replace_text("a\r\na\n", "a\n", "b\n", every=True) == "b\r\nb\n"


REWRITTEN = (
    ("one\r\ntwo\r\n", "one\n2\n", "one\r\n2\r\n"),
    ("one\rtwo\r", "one\n2", "one\r2"),
    ("a\r\nb\nc\r\n", "a\nB\nc\nd\n", "a\r\nB\nc\r\nd\r\n"),
    ("a\nb\n", "a\r\nb\r\n", "a\r\nb\r\n"),
    ("a\r\n", "x", "x"),
    ("", "a\nb\n", "a\nb\n"),
)


@rows.each(("text", "new", "wanted"), REWRITTEN)
def test_overwritten_file_keeps_its_line_ends(text: str, new: str, wanted: str) -> None:
    assert rewrite_text(text, new) == wanted
    assert rewrite_text(wanted, new) == wanted, "the same again changes nothing"


def test_line_ends_have_names() -> None:
    named = {"a": "", "a\n": "", "a\r\n": "CRLF", "a\rb": "CR", "a\r\nb\n": "mixed", "10%\r20%\na\nb\n": ""}
    assert {text: line_end_style(text) for text in named} == named


@given(st.binary(max_size=60))
def test_every_text_gives_back_every_byte(content: bytes) -> None:
    found = decode_file_text(content)
    assert found is None or found.stored(found.text) == content
    if found is not None:
        assert "\udc80" not in found.shown and found.shown.encode() is not None, "a log and a model can take it"


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=10).map("".join)


@given(PIECES, st.text("ab\n", min_size=1, max_size=4), st.text("xy\n", max_size=4))
def test_an_edit_does_to_any_text_what_it_does_to_the_same_with_lf(text: str, old: str, new: str) -> None:
    plain = text.replace("\r\n", "\n")
    found = replace_text(text, old, new, every=True)
    wanted = plain.replace(old, new) if old in plain else None
    at_end = plain.removesuffix(old[:-1]) + new.removesuffix("\n") if old[-1] == "\n" else None
    said = found.replace("\r\n", "\n") if isinstance(found, str) else None
    assert said == wanted or (wanted is None and said == at_end)
