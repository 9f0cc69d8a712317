"""Patterns of checks: values that match, messages for those that do not, and invalid patterns."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planloop.schemas.checks.matchers import BadPattern, find_mismatch, fold_text, pattern_problems, values_equal
from tests import rows
from tests.golden_text import said
from tests.product import Json

FITS: list[tuple[Json, Json]] = [
    (1, 1.0),
    (1.5, 1.5),
    ("Café", "cafe\u0301"),
    ("hello  WORLD", " Hello\nworld "),
    ("ＡＢＣ", "abc"),
    ("straße", "STRASSE"),
    ("１０²㎡", "10²m²"),
    ("/^10²$/", "１０²"),
    (None, None),
    (True, True),
    ([1, "a"], [1.0, "A"]),
    ({"a": {"b": 1}}, {"a": {"b": 1, "more": 2}, "more": 3}),
    ("2030-01-02T15:00Z", "2030-01-02T16:00:00+01:00"),
    ("/ADA|bob/", "hi ada!"),
    ("/^two$/", "one\ntwo\nthree"),
    ("/", "/"),
    ({"is": "/x/"}, "/x/"),
    ({"is": {"any": True}}, {"any": True}),
    ({"subset": {"type": "chat", "text": "/hi/"}}, {"type": "chat", "text": "oh hi", "from": "ann"}),
    ({"exact": {"type": "chat", "id": {"type": "integer"}}}, {"type": "chat", "id": 7}),
    ({"type": "chat", "text": "hi"}, {"type": "chat", "text": "hi", "id": 1}),
    ({"any": True}, None),
    ({"type": "number"}, 2.5),
    ({"type": "integer"}, 2.0),
    ({"type": "string"}, "x"),
    ({"len": 3}, "abc"),
    ({"len": {"between": [1, None]}}, [0]),
    ({"between": [1, 2]}, 2.0),
    ({"between": ["2030-01-01T00:00Z", "2030-01-02T00:00Z"]}, "2030-01-01T23:30-00:30"),
    ({"between": [None, "2030-01-02"]}, "2030-01-01"),
    ({"one-of": ["a", {"type": "number"}]}, 3),
    ({"not": "a"}, "b"),
    ({"not": {"contains": "x"}}, "abc"),
    ({"contains": "LOve"}, "Ada Lovelace"),
    ({"contains": ["ada", "/l.ve/"]}, "Ada Lovelace"),
    ({"contains": {"id": 2}}, [{"id": 1}, {"id": 2, "x": 1}]),
    ({"set": ["a", "b"]}, ["B", "a", "b"]),
    ({"set": ["/a/", "/ab/"]}, ["ab", "a"]),
    ({"set": []}, []),
    ({"verbatim": "/a  B/"}, "/a  B/"),
    ({"same-instant": "2030-01-02T15:00Z"}, "2030-01-02 16:00+0100"),
    ({"same-instant": "2030-01-02"}, "2030-01-02"),
    ({"type": "number", "not": 5}, 6),
]

DIFFERS: list[tuple[Json, Json, str]] = [
    ("1.5", "15", 'it is "15", not "1.5"'),
    (15, "15", 'it is "15", not 15'),
    ("15", 15, 'it is 15, not "15"'),
    (1, True, "it is true, not 1"),
    (False, 0, "it is 0, not false"),
    (0, None, "it is null, not 0"),
    ("-5", "5", 'it is "5", not "-5"'),
    ("102", "10²", 'it is "10²", not "102"'),
    ("H2O", "H₂O", 'it is "H₂O", not "H2O"'),
    ("11⁄2", "1½", 'it is "1½", not "11⁄2"'),
    ("21", "2①", 'it is "2①", not "21"'),
    ("m2", "㎡", 'it is "㎡", not "m2"'),
    ("/^102$/", "10²", "does not match"),
    ({"contains": "02"}, "10²", "does not contain"),
    ("a.b", "ab", 'it is "ab", not "a.b"'),
    ("2030-01-02T15:00Z", "2030-01-02T15:00+01:00", 'it is "2030-01-02T15:00+01:00", not "2030-01-02T15:00Z"'),
    ([1, 2], [2, 1], "/0 is 2, not 1"),
    ([1], [1, 2], "it has 2 items, not 1"),
    ([1], 1, "it is 1, not a list"),
    ({"a": {"b": 1}}, {"a": {}}, "/a/b is missing"),
    ({"a": 1}, [], "it is [], not a map"),
    ({"exact": {"a": {"b": 1}}}, {"a": {"b": 1, "c": 2}}, "/a/c should not be there"),
    ({"exact": [{"a": 1}]}, [{"a": 1, "b": 2}], "/0/b should not be there"),
    ("/ada/", 5, "it is 5, not a text"),
    ("/^ada$/", "adam", 'it does not match /^ada$/: "adam"'),
    ({"a": {"any": True}}, {}, "/a is missing"),
    ({"type": "integer"}, 2.5, "it is a number, not an integer"),
    ({"type": "number"}, True, "it is a boolean, not a number"),
    ({"type": "number"}, None, "it is null, not a number"),
    ({"len": 2}, "abc", "the length of it does not fit: is 3, not 2"),
    ({"len": 2}, 22, "it is 22, not a text, a list or a map"),
    ({"between": [1, 2]}, 3, "it is 3, not between 1 and 2"),
    ({"between": [1, 2]}, "2", 'it is "2", not a number'),
    ({"between": ["2030-01-01", None]}, "2030-01-02T10:00Z", 'it is "2030-01-02T10:00Z", not a time'),
    ({"one-of": [1, 2]}, 3, "it is 3, not one of [1,2]"),
    ({"not": "/a/"}, "cat", 'it is "cat", which it must not be'),
    ({"contains": ["ada", "bob"]}, "ada", 'it does not contain "bob": "ada"'),
    ({"contains": 1}, [2], "it has no item like 1"),
    ({"contains": 1}, "1", 'it is "1", not 1'),
    ({"set": ["a", "b"]}, ["a"], 'it lacks "b"'),
    ({"set": ["a"]}, ["a", "c"], 'it has "c" as well'),
    ({"set": ["/a/", "/ab/"]}, ["ab"], 'it lacks "/ab/"'),
    ({"set": ["a"]}, "a", 'it is "a", not a list'),
    ({"verbatim": "a B"}, "a b", 'it is "a b", not "a B" to the letter'),
    ({"verbatim": "a B"}, "a  B", "to the letter"),
    ({"same-instant": "2030-01-02T15:00Z"}, "2030-01-02T15:01Z", "not"),
    ({"same-instant": "2030-01-02T15:00Z"}, "2030-01-02T15:00", "a time without a zone"),
    ({"same-instant": "2030-01-02T15:00Z"}, "soon", 'it is "soon", not a time'),
    ({"type": "number", "not": 5}, 5, "it is 5, which it must not be"),
    ({"a": [{"b": {"contains": "x"}}]}, {"a": [{"b": "y"}]}, '/a/0/b does not contain "x": "y"'),
]

FAULTS: list[tuple[Json, str, str, str]] = [
    ({"a": "/(/"}, "/a", "P0223", "for the text itself write `{is:"),
    ({"a": {"type": "message"}}, "/a/type", "P0212", "`{subset: {type: …}}`"),
    ({"contians": "x"}, "/contians", "P0201", "did you mean `contains`?"),
    ({"one_of": [1]}, "/one_of", "P0201", "did you mean `one-of`?"),
    ({"subset": [1]}, "/subset", "P0202", "as in"),
    ({"any": 5}, "/any", "P0212", "any: true"),
    ({"between": [1]}, "/between", "P0202", "between: [1, 5]"),
    ({"between": [1, "2030-01-01"]}, "/between", "P0212", "between: [1, 5]"),
    ({"between": [5, 1]}, "/between", "P0212", "the lower one first"),
    ({"between": [None, None]}, "/between", "P0212", "between: [1, 5]"),
    ({"set": "a"}, "/set", "P0202", "as in"),
    ({"one-of": []}, "/one-of", "P0202", "as in"),
    ({"same-instant": "soon"}, "/same-instant", "P0223", "2030-01-02"),
    ({"verbatim": 1}, "/verbatim", "P0202", "verbatim: "),
    ([{"not": {"len": "/*/"}}], "/0/not/len", "P0223", "for the text itself"),
    ({"exact": {"set": {"type": 5}}}, "/exact/set/type", "P0212", "one of text"),
]


@rows.each(("pattern", "value"), FITS, ids=str)
def test_matching_value_gives_no_message(pattern: Json, value: Json) -> None:
    assert list(pattern_problems(pattern)) == []
    assert find_mismatch(pattern, value) == ""


@rows.each(("pattern", "value", "words"), DIFFERS, ids=str)
def test_mismatch_is_reported_with_its_place(pattern: Json, value: Json, words: str) -> None:
    assert list(pattern_problems(pattern)) == []
    assert words in find_mismatch(pattern, value)


@pytest.mark.parametrize(("pattern", "at", "code", "cure"), FAULTS, ids=str)
def test_invalid_pattern_is_reported_with_a_place_and_a_fix(pattern: Json, at: str, code: str, cure: str) -> None:
    (fault,) = pattern_problems(pattern)

    assert ("".join(f"/{name}" for name in fault.at), fault.code) == (at, code)
    assert cure in fault.hint


@pytest.mark.parametrize("pattern", ["/(/", {"not": "/(/"}])
def test_expression_invalid_only_after_filling_matches_nothing_even_negated(pattern: Json) -> None:
    with pytest.raises(BadPattern, match="not closed"):
        find_mismatch(pattern, "x")


def test_list_longer_than_the_bound_is_not_a_set() -> None:
    said(find_mismatch({"set": [1]}, list(range(100_000))))


def test_pattern_that_is_exponential_elsewhere_answers_quickly() -> None:
    assert find_mismatch("/^(a+)+$/", "a" * 5_000 + "b") != ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_every_value_is_itself_and_equality_has_no_direction(one: Json, other: Json) -> None:
    assert find_mismatch({"is": one}, one) == ""
    assert values_equal(one, other) == values_equal(other, one)
    assert (find_mismatch({"is": one}, other) == "") == (find_mismatch({"not": {"is": one}}, other) != "")


def is_apart(char: str) -> bool:
    """Whether the character has one in it, or is one, that is raised, lowered, in a circle or a fraction."""
    kind, _, codes = unicodedata.decomposition(char).partition(" ")
    return kind in ("<super>", "<sub>", "<fraction>", "<circle>") or "00B2" in codes or "00B3" in codes


@given(st.text(st.characters(min_codepoint=0x80), min_size=1))
def test_folding_takes_every_other_form_of_unicode_for_the_same(text: str) -> None:
    assume(not any(map(is_apart, text)))

    assert fold_text(unicodedata.normalize("NFKC", text)) == fold_text(text)


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)
