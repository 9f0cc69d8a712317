"""Reading EDN: the same values as edn-format, exact positions, errors with hints."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import edn_format
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.compiler.read import read_source
from planloop.compiler.source import Form, Keyword, SizeLimits, SourcePath, SourceTree, SourceValue, Symbol
from tests import rows, sets


def read(text: str, **sizes: int) -> SourceTree:
    return read_source(text.encode(), file="plan.edn", limits=SizeLimits(**sizes))


def value_of(text: str) -> SourceValue:
    tree = read(text)
    assert tree.diagnostics == ()
    return tree.value


def shown(text: str, path: SourcePath) -> tuple[str | None, str]:
    place = read(text).place(path)
    assert place is not None
    key = text[place.key.start : place.key.end] if place.key else None
    return key, text[place.value.start : place.value.end]


def test_every_kind_of_value_is_read() -> None:
    text = r'[nil true false 1 -2 3N 0x1F 1.5 2e3 4M "a\n\u00e9" :k :n/k sym n/s ... \a \newline \u0041 #{1} (f x) {}]'
    assert value_of(text) == [
        None, True, False, 1, -2, 3, 31, 1.5, 2000.0, 4.0, "a\né", "k", "n/k", "sym", "n/s", "...", "a",
        "\n", "A", [1], Form((Symbol("f"), Symbol("x"))), {},
    ]  # fmt: skip
    kinds = [type(each) for each in value_of('["a" :a a]')]
    assert kinds == [str, Keyword, Symbol]


def test_keys_are_text_that_keeps_its_namespace() -> None:
    text = '{:task/id 1 "text" 2 sym 3 6379 4 \\a 5 nil 6}'
    assert value_of(text) == {"task/id": 1, "text": 2, "sym": 3, "6379": 4, "a": 5, "nil": 6}
    assert value_of("#:task{:id 1 :_/goal 2 :other/x 3 sym 4}") == {"task/id": 1, "goal": 2, "other/x": 3, "sym": 4}


def test_comments_commas_and_discards_are_nothing() -> None:
    assert value_of('[1,2 ; three\n #_ 3 #_#_ 4 5 #_[6 {7 8}] 9 #_ #inst "x"]') == [1, 2, 9]
    assert value_of("#!/usr/bin/env plan\n{:a #_ 1 2}") == {"a": 2}


def test_a_form_knows_its_head_and_counts_it() -> None:
    form = value_of('(task "goal" :cwd "x" (sh "y"))')
    assert isinstance(form, Form)
    assert form.head == "task"
    assert shown('(task "goal" :cwd "x" (sh "y"))', (3,)) == (None, '"x"')
    assert shown('(task "goal" :cwd "x" (sh "y"))', (4, 1)) == (None, '"y"')


def test_several_forms_at_the_top_are_a_list() -> None:
    assert value_of("(a 1)\n(b 2)") == [Form((Symbol("a"), 1)), Form((Symbol("b"), 2))]
    assert shown("(a 1)\n(b 2)", (1, 1)) == (None, "2")


def test_known_tags_give_text_and_represent_what_they_mark() -> None:
    assert value_of('{:a #inst "2024-01-01" :b #uuid "x"}') == {"a": "2024-01-01", "b": "x"}
    assert shown('{:a #inst "2024"}', ("a",)) == (":a", '#inst "2024"')


def test_places_are_in_visible_characters() -> None:
    text = '{:task/id "x" ; é\r\n :tasks {:a {:goal "say \\"hi\\""}}\r\n #:n{:k 1}[2]}'
    assert shown(text, ("tasks", "a", "goal")) == (":goal", '"say \\"hi\\""')
    place = read(text).place(("tasks", "a"))
    assert place is not None and place.key is not None
    assert (place.key.line, place.key.column, place.value.column) == (2, 10, 13)
    assert read(text).place(("tasks", "b")) is None


@rows.each(
    ("text", "code", "line", "column", "word"),
    [
        ("", "P0103", 1, 1, "empty"),
        ("nil", "P0103", 1, 1, "empty"),
        ("; a comment\n#_ {}", "P0103", 1, 1, "empty"),
        ('{:a "x\n}', "P0107", 1, 5, "string"),
        ("{:a [1 2}", "P0107", 1, 5, "`[`"),
        ("(task\n  (sh 1)", "P0107", 1, 1, "`(`"),
        ("#{1", "P0107", 1, 1, "`#{`"),
        ("{:a 1}]", "P0108", 1, 7, "unmatched `]`"),
        ("{:a 1 :a 2}", "P0109", 1, 7, "duplicate"),
        ('{:a 1 "a" 2}', "P0109", 1, 7, "duplicate"),
        ("#{1 1}", "P0109", 1, 5, "duplicate"),
        ("{[1] 2}", "P0110", 1, 2, "vector"),
        ("#foo 1", "P0115", 1, 1, "#foo"),
        ("#inst 1", "P0115", 1, 1, "#inst"),
        ("##Inf", "P0119", 1, 1, "#"),
        ("1e999", "P0117", 1, 1, "1e999"),
        ("1/2", "P0117", 1, 1, "1/2"),
        ("99999999999999999999", "P0117", 1, 1, "999"),
        ("017", "P0119", 1, 1, "017"),
        ("1x", "P0119", 1, 1, "1x"),
        ("::a", "P0119", 1, 1, "::a"),
        ("#::a{:b 1}", "P0119", 1, 1, "namespace"),
        (":", "P0119", 1, 1, "colon"),
        ("a/b/c", "P0119", 1, 1, "a/b/c"),
        ('"a\\qb"', "P0119", 1, 3, "\\q"),
        ("\\foo", "P0119", 1, 1, "\\foo"),
        ("[1 #_]", "P0119", 1, 4, "#_"),
        ("'a", "P0119", 1, 1, "quote"),
        ("#(inc 1)", "P0119", 1, 1, "macro"),
        ("@a", "P0119", 1, 1, "deref"),
        ("{:a}", "P0120", 1, 2, ":a"),
    ],
)  # fmt: skip
def test_each_error_has_a_place_and_a_fix(text: str, code: str, line: int, column: int, word: str) -> None:
    first = read(text).diagnostics[0]
    assert first.span is not None
    assert (first.code, first.span.line, first.span.column) == (code, line, column)
    assert word in first.summary
    assert first.hint


def test_all_errors_are_reported_in_one_pass() -> None:
    faults = read("{:a 1 :a 2\n :b #foo 3 :c 1x\n :d [1 2}").diagnostics
    assert [fault.code for fault in faults] == ["P0107"]  # A bracket astray makes another tree of the rest.
    faults = read("{:a 1 :a 2\n :b #foo 3 :c 1x}").diagnostics
    assert [fault.code for fault in faults] == ["P0109", "P0115", "P0119"]


def plain(value: object) -> object:
    """What edn-format read, in the values of `planloop.compiler.source`."""
    match value:
        case edn_format.Keyword():
            return ("keyword", value.name)
        case edn_format.Symbol():
            return ("symbol", value.name)
        case edn_format.ImmutableDict():
            return {key_of(key): plain(each) for key, each in value.items()}
        case edn_format.ImmutableList():
            return [plain(each) for each in value]
        case tuple():
            return ("form", [plain(each) for each in value])
        case frozenset():
            return ("set", sorted(repr(plain(each)) for each in value))
        case Decimal():
            return float(value)
        case Fraction():
            raise AssertionError("plans hold no ratios")
        case _:
            return value


def key_of(key: object) -> str:
    return str(getattr(key, "name", key))


def ours(value: SourceValue) -> object:
    match value:
        case Keyword():
            return ("keyword", str(value))
        case Symbol():
            return ("symbol", str(value))
        case dict():
            return {key: ours(each) for key, each in value.items()}
        case list():
            return [ours(each) for each in value]
        case Form():
            return ("form", [ours(each) for each in value.items])
        case _:
            return value


names = st.from_regex(r"[a-z*!?<>=][a-z0-9*!?._-]{0,6}(/[a-z][a-z0-9-]{0,4})?", fullmatch=True).filter(
    lambda name: name not in ("nil", "true", "false")
)
keywords = names.map(lambda name: f":{name}")
strings = st.text(
    st.characters(codec="ascii", exclude_characters='"\\\r', min_codepoint=9, exclude_categories=["Cc"]), max_size=8
)
atoms = st.one_of(
    names,
    keywords,
    strings.map(lambda text: f'"{text}"'),
    st.integers(-(2**60), 2**60).map(str),
    st.integers(0, 99).map(lambda number: f"{number}N"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).filter(lambda number: "e" not in repr(number)).map(repr),
    st.sampled_from(["nil", "true", "false", "\\a", "\\newline", "\\u0041", '"\\n\\t\\"\\\\"', "1.5M"]),
)
gaps = st.sampled_from([" ", "  ", ", ", "\n", " ; note ] ) }\n", " #_ skipped ", " #_ [1 {:a 2}] "])


@st.composite
def written(draw: st.DrawFn, depth: int = 0) -> str:
    kind = draw(st.sampled_from(["atom", "atom", "vector", "form", "map", "namespaced"] if depth < 3 else ["atom"]))
    if kind == "atom":
        return str(draw(atoms))
    if kind in ("vector", "form"):
        items = draw(st.lists(written(depth + 1), max_size=4))
        inside = "".join(item + draw(gaps) for item in items)
        return f"[{inside}]" if kind == "vector" else f"({inside})"
    keys = draw(st.lists(keywords, max_size=4, unique_by=lambda key: key.rpartition("/")[2].lstrip(":")))
    inside = "".join(key + draw(gaps) + draw(written(depth + 1)) + draw(gaps) for key in keys)
    return ("#:ns{" if kind == "namespaced" else "{") + inside + "}"


@given(text=written())
@settings(max_examples=sets.examples(200, 50))
def test_our_reader_agrees_with_edn_format(text: str) -> None:
    expected = [plain(value) for value in edn_format.loads_all(text, write_ply_tables=False)]
    tree = read(f"[{text}]")
    assert tree.diagnostics == ()
    assert ours(tree.value) == expected


@given(text=st.text(alphabet='{}[]()"\\#:;,_ \na1/.^@-', max_size=30))
@settings(max_examples=sets.examples(500, 90))
def test_no_text_crashes_the_reader(text: str) -> None:
    tree = read(text)
    for fault in tree.diagnostics:
        assert fault.span is not None
        assert 0 <= fault.span.start <= fault.span.end <= len(text)
        assert fault.hint
    if not tree.diagnostics:
        assert tree.place(()) is not None
