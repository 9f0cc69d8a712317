"""Reading YAML: values by YAML 1.2, marked traps, exact positions, errors with hints."""

from __future__ import annotations

import gc
import json

import pytest
import yaml
from hypothesis import given, settings

from planloop.compiler.read import read_source
from planloop.compiler.source import SizeLimits, SourcePath, SourceTree, SourceValue, YamlTrap
from planloop.compiler.yaml.nodes import YamlLayout
from planloop.compiler.yaml.reader import read_json_line
from tests import rows, sets
from tests.compiler.documents import documents
from tests.product import JsonObject, canonical_bytes


def read(text: str, **sizes: int) -> SourceTree:
    return read_source(text.encode(), file="plan.yaml", limits=SizeLimits(**sizes))


def value_of(text: str) -> SourceValue:
    tree = read(text)
    assert tree.diagnostics == ()
    return tree.value


def codes(text: str, **sizes: int) -> list[str]:
    return [fault.code for fault in read(text, **sizes).diagnostics]


def shown(text: str, path: SourcePath) -> tuple[str | None, str]:
    """What the places of a path point at in the text: the key and the value."""
    place = read(text).place(path)
    assert place is not None
    key = text[place.key.start : place.key.end] if place.key else None
    return key, text[place.value.start : place.value.end]


@rows.each(
    ("written", "meant"),
    [
        ("1", 1),
        ("-17", -17),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'1'", "1"),
        ('"no"', "no"),
        ("!!str 1", "1"),
        ("!!int 1", 1),
        ("!!float 1", 1.0),
        ("npm test", "npm test"),
        ("qwen3:32b", "qwen3:32b"),
        ("6379:6379", "6379:6379"),
        ("1.2.3", "1.2.3"),
        ("-", [None]),
    ],
)
def test_scalars_have_their_yaml_1_2_meaning(written: str, meant: SourceValue) -> None:
    assert canonical_bytes(value_of(f"a:\n  {written}\n")["a"]) == canonical_bytes(meant)


@pytest.mark.parametrize(
    "written",
    [
        "no",
        "Yes",
        "ON",
        "off",
        "y",
        "N",
        "010",
        "08",
        "12:30:45",
        "1:30",
        "1_000",
        "0b11",
        "1_0.5",
        "2024-01-01",
        "2024-01-01 10:00:00",
    ],
)
def test_value_that_yaml_1_1_reads_differently_is_a_warning(written: str) -> None:
    value = value_of(f"a: {written}")["a"]
    assert isinstance(value, YamlTrap)
    assert value == written
    assert type(value_of(f"a: '{written}'")["a"]) is str


def test_keys_are_text_as_written_and_never_traps() -> None:
    value = value_of("6379: 1\nno: 2\ntrue: 3\n010: 4\n1.0: 5\n'q': 6\nnull: 7\n")
    assert list(value) == ["6379", "no", "true", "010", "1.0", "q", "null"]
    assert {type(key) for key in value} == {str}


def test_an_alias_is_a_copy_that_can_be_changed_alone() -> None:
    value = value_of("a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n")
    assert value == {"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}, {"b": [1]}]}
    value["c"]["b"].append(2)
    assert value["a"] == {"b": [1]}


def test_merge_keys_fill_in_what_a_map_does_not_say() -> None:
    text = (
        "x: &x {a: 1, b: 2}\ny: &y {a: 9, c: 3}\none: {<<: *x, b: 5}\n"
        "many:\n  <<: [*x, *y]\n  d: 4\nquoted: {'<<': 1}\n"
    )
    value = value_of(text)
    assert value["one"] == {"a": 1, "b": 5}
    assert value["many"] == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert value["quoted"] == {"<<": 1}


@given(document=documents)
@settings(max_examples=sets.examples(100, 25))
def test_output_of_pyyaml_is_read_to_the_same_values(document: JsonObject) -> None:
    # With quotes: its plain style leaves `1e3` and `0o17` bare, which only YAML 1.2 takes for numbers.
    text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False, default_style='"')
    tree = read(text)
    assert tree.diagnostics == ()
    assert canonical_bytes(tree.value) == canonical_bytes(document)


def test_places_are_in_visible_characters() -> None:
    text = (
        "# head\r\ntasks:\r\n  ui:   # note\r\n    goal: 'say \"hi\"'  # why\r\n    needs: [a, {b: c}]\r\n"
        "    notes: |\r\n      one\r\n      two\r\n\r\n  # about the next\r\n  next: é\r\n  empty:\r\n"
    )
    assert shown(text, ("tasks", "ui", "goal")) == ("goal", "'say \"hi\"'")
    assert shown(text, ("tasks", "ui", "needs", 1, "b")) == ("b", "c")
    assert shown(text, ("tasks", "ui", "needs", 0)) == (None, "a")
    assert shown(text, ("tasks", "ui", "notes")) == ("notes", "|\r\n      one\r\n      two")
    assert shown(text, ("tasks", "ui"))[1].startswith("goal") and shown(text, ("tasks", "ui"))[1].endswith("two")
    assert shown(text, ("tasks", "empty")) == ("empty", "")
    place = read(text).place(("tasks", "next"))
    assert place is not None and place.key is not None
    assert (place.value.line, place.value.column, place.key.line, place.key.column) == (11, 9, 11, 3)


def test_alias_is_located_where_it_is_written_and_its_members_at_the_anchor() -> None:
    text = "a: &x {b: 1}\nc: *x   # same\nd: [*x , *x]\ne:\n  - *x\n  # *no\n  - *x\nf: {<<: *x, g: 2}\n"
    assert shown(text, ("c",)) == ("c", "*x")
    assert shown(text, ("d", 1)) == (None, "*x")
    assert shown(text, ("e", 1)) == (None, "*x")
    assert shown(text, ("e",))[1] == "- *x\n  # *no\n  - *x"
    assert shown(text, ("c", "b")) == ("b", "1")
    assert shown(text, ("f", "b")) == ("b", "1")
    assert shown(text, ("f", "g")) == ("g", "2")


def test_unresolved_path_has_no_place() -> None:
    tree = read("a: [1]\n")
    assert [tree.place(path) for path in (("b",), ("a", 1), ("a", "x"), ("a", 0, "y"))] == [None] * 4
    assert read("a: [").place(()) is None


def test_a_byte_order_mark_and_line_breaks_of_every_kind_are_read() -> None:
    tree = read_source("\ufeffa: 1\r\nb: 2\rc: 3\n".encode(), file="plan.yaml")
    assert tree.value == {"a": 1, "b": 2, "c": 3}
    place = tree.place(("c",))
    assert place is not None
    assert (place.value.line, place.value.column) == (3, 4)


def test_line_separators_inside_a_text_do_not_shift_the_line_numbers() -> None:
    place = read('a: "x\u2028y"\nb: 2\n').place(("b",))
    assert place is not None
    assert place.value.line == 2


@rows.each(
    ("text", "code", "line", "column", "word"),
    [
        ("", "P0103", 1, 1, "empty"),
        ("--- ~\n", "P0103", 1, 1, "empty"),
        ("# only a comment\n", "P0103", 1, 1, "empty"),
        ("a: \x00b\n", "P0104", 1, 4, "NUL"),
        ("a: b: c\n", "P0105", 1, 5, "second"),
        ("a: @x\n", "P0105", 1, 4, "cannot begin"),
        ("a: *.py\n", "P0105", 1, 4, "*.py"),
        ("a: 1\nb\n", "P0105", 2, 1, "key: value"),
        ("a:\n   b: 1\n  c: 2\n", "P0105", 3, 3, "wrong indentation"),
        ("a: 1\n- b\n", "P0105", 2, 1, "list item"),
        ("- a\nb: 1\n", "P0105", 2, 1, "between the items"),
        ("a: 'x' y\n", "P0105", 1, 8, "closing quote"),
        ('a: "\\q"\n', "P0105", 1, 5, "escape"),
        ("a: [x, , y]\n", "P0105", 1, 8, "comma"),
        ("<<<<<<< HEAD\na: 1\n", "P0105", 1, 1, "conflict"),
        ("a:\n\tb: 1\n", "P0106", 2, 1, "tab"),
        ("a: [1, 2\nb: 3\n", "P0107", 1, 4, "unclosed"),
        ("a: {x: 1\n", "P0107", 1, 4, "unclosed"),
        ("[", "P0107", 1, 1, "unclosed"),
        ('a: "x\nb: 1\n', "P0107", 1, 4, "unclosed"),
        ("a: ]\n", "P0108", 1, 4, "unmatched `]`"),
        ("a: 1\na: 2\n", "P0109", 2, 1, "duplicate"),
        ("{a: 1, 'a': 2}\n", "P0109", 1, 8, "duplicate"),
        ("? [a]\n: 1\n", "P0110", 1, 3, "list"),
        ("{: 1}\n", "P0110", 1, 2, "empty"),
        (": 1\n", "P0110", 1, 1, "empty"),
        ("? \n: 1\n", "P0110", 1, 2, "empty"),
        ("a: *nope\n", "P0114", 1, 4, "nope"),
        ("a: &x 1\nb: &x 2\n", "P0114", 2, 4, "duplicate"),
        ("a: &a [*a]\n", "P0114", 1, 4, "inside"),
        ("a: !include x.yaml\n", "P0115", 1, 4, "!include"),
        ("a: !!python/object:os.system x\n", "P0115", 1, 4, "!!python"),
        ("a: !!int x\n", "P0115", 1, 4, "!!int"),
        ("a: 1\n---\nb: 2\n", "P0116", 2, 1, "second document"),
        ("a: .inf\n", "P0117", 1, 4, ".inf"),
        ("a: 1e999\n", "P0117", 1, 4, "1e999"),
        (f"a: {'9' * 5000}\n", "P0117", 1, 4, "999"),
        ("a: {<<: 1}\n", "P0118", 1, 9, "<<"),
    ],
)  # fmt: skip
def test_each_error_has_a_place_and_a_fix(text: str, code: str, line: int, column: int, word: str) -> None:
    tree = read(text)
    first = tree.diagnostics[0]
    assert first.span is not None
    assert (first.code, first.span.line, first.span.column) == (code, line, column)
    assert word in first.summary
    assert first.hint


def test_all_errors_of_values_are_reported_in_one_pass() -> None:
    assert codes("a: 1\na: 2\nb: !x 1\nc: .nan\nd: {e: 1, e: 2}\n") == ["P0109", "P0115", "P0117", "P0109"]
    assert codes("a:\n\tb: 1\n\tc: 2\n") == ["P0106", "P0106"]


def test_error_in_one_value_leaves_the_others_to_be_checked() -> None:
    assert read("a: 1\na: 2\nb: 3\n").value == {"a": 1, "b": 3}


@settings(max_examples=sets.examples(500, 80))
@given(documents)
def test_line_of_json_has_the_same_value_as_yaml(document: JsonObject) -> None:
    for line in (canonical_bytes(document), json.dumps(document).encode()):
        quick, exact = (read_source(text, file="plan.yaml") for text in (line, b"# As YAML.\n" + line))

        assert (quick.value, quick.diagnostics) == (exact.value, exact.diagnostics) or exact.diagnostics
        assert repr(quick.value) == repr(exact.value)


@pytest.mark.parametrize(
    "line",
    [
        '{"a":1,"a":2}', '{"a":1e3}', '{"a":-0.0}', '{"a":1E400}', '{"a":NaN}', '{"a":123456789012345678901}',
        '{"a":"\\ud83d"}', '{"a":"\\/"}', '{"":1}', '{"<<":{"b":1}}', '{"a":1} {"b":2}', '{"a":1,}', "{}",
        '{"' + "a" * 2000 + '":1}', '{"a":"\x7f"}',
        '{"a":' + "[" * 63 + "]" * 63 + "}", '{"a":' + "[" * 64 + "]" * 64 + "}",
        '{"a":' + "[" * 5000 + "]" * 5000 + "}", '{"a":[' + "1," * 99_996 + "1]}", '{"a":[' + "1," * 99_999 + "1]}",
    ],
)  # fmt: skip
def test_a_line_that_json_and_yaml_take_for_different_things_is_yaml(line: str) -> None:
    quick, exact = read(line), read("# As YAML.\n" + line)

    assert repr(quick.value) == repr(exact.value)
    assert [fault.code for fault in quick.diagnostics] == [fault.code for fault in exact.diagnostics]


def test_machine_written_document_needs_no_yaml_parser() -> None:
    document: JsonObject = {"plan": "run", "tasks": {"a": {"goal": 'say "hi"\n', "budget": {"usd": 0.5}, "needs": []}}}

    assert read_json_line(canonical_bytes(document).decode() + "\n", SizeLimits()) == document


def test_reading_leaves_the_garbage_collector_unchanged() -> None:
    assert gc.isenabled()
    read("a: [")
    assert gc.isenabled()
    gc.disable()
    try:
        read("a: 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_places_are_found_once_a_collection() -> None:
    tree = read("tasks:\n" + "".join(f"  t{n}: {{goal: x}}\n" for n in range(2000)))
    layout = getattr(tree, "layout")  # noqa: B009
    assert isinstance(layout, YamlLayout)
    tasks = layout.entries(layout.root)["tasks"].node
    assert layout.entries(tasks) is layout.entries(tasks)
    assert all(tree.place(("tasks", f"t{n}", "goal")) for n in range(2000))
