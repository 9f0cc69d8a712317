"""Splices into hundreds of generated files: the result says what was wanted, and untouched lines stay as they were."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypothesis import given, note, settings
from hypothesis import strategies as st

from planloop.compiler.read import read_source
from planloop.compiler.source import SourcePath
from planloop.compiler.splice.write_back import NotSpliced, Spliced, SpliceRequest, splice
from tests import sets
from tests.compiler.written import Dice, EdnWriter, Where, Written, YamlWriter, dice, edited, some_map
from tests.product import Json, JsonObject, canonical_bytes

ALIAS = re.compile(r"(?:: +|- )\*a\d+")
GENERATED = settings(max_examples=sets.examples(300, 75))


def splice_plain(content: bytes, file: str, old: JsonObject, new: JsonObject) -> Spliced | NotSpliced:
    """Splices with the values of the source as the document: the spelling is all that is at stake here."""

    def recompile(changed: bytes) -> JsonObject | None:
        tree = read_source(changed, file=file)
        return None if tree.diagnostics else tree.value

    def origin(pointer: tuple[str, ...]) -> SourcePath:
        path: SourcePath = ()
        value: Json = old
        for token in pointer:
            step = int(token) if isinstance(value, list) else token
            value = value[step]
            path = (*path, step)
        return path

    return splice(SpliceRequest(read_source(content, file=file), origin, old, new, recompile))


def changes(old: list[Json], new: list[Json]) -> int:
    return sum(canonical_bytes(one) != canonical_bytes(other) for one, other in zip(old, new, strict=True))


def touched(old: Json, new: Json, at: Where = ()) -> Iterable[Where]:
    """The paths whose lines an edit may change: what is gone, or replaced."""
    if isinstance(old, dict) and isinstance(new, dict) and new:
        for key, value in old.items():
            yield from touched(value, new[key], (*at, key)) if key in new else [(*at, key)]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and changes(old, new) == 1:
        for index, value in enumerate(old):
            yield from touched(value, new[index], (*at, index))
    elif canonical_bytes(old) != canonical_bytes(new):
        yield at


def is_untouched(where: Where, line: str, old: JsonObject, new: JsonObject, marks: set[Where]) -> bool:
    if any(where[: len(mark)] == mark for mark in marks):
        return False
    if moves_up(where, old, new):
        return False
    # A line that holds a collection in brackets shows what is in it; the key line of one changes when it is emptied.
    inner: Json = old
    fresh: Json = new
    for token in where:
        inner, fresh = inner[token], fresh[token]
    if canonical_bytes(inner) == canonical_bytes(fresh):
        return True
    return isinstance(inner, (dict, list)) and bool(fresh) and line.partition("#")[0].rstrip().endswith(":")


def moves_up(where: Where, old: JsonObject, new: JsonObject) -> bool:
    """Whether the key stands first in a list item now and did not before: then it moves up behind the dash."""
    if len(where) < 2 or not isinstance(where[-2], int):
        return False
    was: Json = old
    now: Json = new
    for token in where[:-1]:
        was, now = was[token], now[token]
    return isinstance(was, dict) and next(iter(was)) not in now and where[-1] == next(iter(now))


def untouched_lines(written: Written, old: JsonObject, new: JsonObject) -> list[str]:
    marks = set(touched(old, new))
    return [
        line
        for line, where in written.lines
        if (bool(line) if where is None else is_untouched(where, line, old, new, marks))
    ]


def is_subsequence(wanted: list[str], lines: list[str]) -> bool:
    rest = iter(lines)
    return all(any(line == other for other in rest) for line in wanted)


@given(dice=dice, has_bom=st.booleans(), ends=st.booleans(), newline=st.sampled_from(["\n", "\r\n"]))
@GENERATED
def test_law_9_yaml_holds_the_new_values_and_other_lines_stay_identical(
    dice: Dice, has_bom: bool, ends: bool, newline: str
) -> None:
    old = some_map(dice)
    written = YamlWriter(dice).write(old)
    content = (("\ufeff" if has_bom else "") + written.text(newline, ends=ends)).encode()
    tree = read_source(content, file="plan.yaml")
    assert tree.diagnostics == ()
    assert canonical_bytes(tree.value) == canonical_bytes(old)
    new = edited(dice, old)
    result = splice_plain(content, "plan.yaml", old, new)
    note(f"{content.decode()}\n{new}")
    if isinstance(result, NotSpliced):
        # Only what an alias shares may be refused, and only with that reason.
        assert ALIAS.search(content.decode())
        assert "alias" in result.reason
        return
    text = result.content.decode()
    assert text.startswith("\ufeff") == has_bom
    if newline == "\r\n" and newline in written.text(newline, ends=ends):
        assert "\n" not in text.replace("\r\n", "")
    assert is_subsequence(untouched_lines(written, old, new), text.lstrip("\ufeff").replace("\r\n", "\n").split("\n"))


@given(dice=dice)
@GENERATED
def test_edn_holds_the_new_values(dice: Dice) -> None:
    old = some_map(dice)
    content = EdnWriter(dice).write(old).encode()
    assert canonical_bytes(read_source(content, file="plan.edn").value) == canonical_bytes(old)
    new = edited(dice, old)
    note(f"{content.decode()}\n{new}")
    result = splice_plain(content, "plan.edn", old, new)
    assert isinstance(result, Spliced), result


@given(dice=dice, ends=st.booleans())
@GENERATED
def test_law_9_splicing_no_change_gives_the_same_bytes(dice: Dice, ends: bool) -> None:
    old = some_map(dice)
    yaml = YamlWriter(dice).write(old).text("\n", ends=ends).encode()
    edn = EdnWriter(dice).write(old).encode()
    assert splice_plain(yaml, "plan.yaml", old, old) == Spliced(yaml)
    assert splice_plain(edn, "plan.edn", old, old) == Spliced(edn)
