"""The engine of pattern languages: words, other patterns, reasons, structure and equality."""

from __future__ import annotations

from typing import Final

from planloop.schemas.predicates import (
    StructureTexts,
    Vocabulary,
    excerpt,
    is_number,
    is_same,
    predicate,
    structure_mismatch,
)
from tests.product import Json

LANGUAGE: Final = Vocabulary[Json](
    {
        "over": lambda wanted, value, at: "" if value > wanted else f"{at or 'it'} is not over {wanted}",
        "even": predicate(lambda wanted, value: (value % 2 == 0) is wanted),
    },
    predicate(is_same),
)


def test_map_of_predicates_matches_if_all_hold() -> None:
    assert LANGUAGE.matches({"over": 3, "even": True}, 4)
    assert not LANGUAGE.matches({"over": 3, "even": True}, 5)
    assert LANGUAGE.mismatch({"over": 5, "even": True}, 3, "/n") == "/n is not over 5"
    assert len(list(LANGUAGE.reasons({"over": 5, "even": True}, 3))) == 2


def test_a_pattern_with_another_name_or_none_is_read_as_a_whole() -> None:
    assert not LANGUAGE.is_word_map({"over": 3, "size": 1})
    assert not LANGUAGE.is_word_map({})
    assert LANGUAGE.matches({"over": 3, "size": 1}, {"over": 3, "size": 1})
    assert LANGUAGE.matches(4, 4.0)


def test_the_operands_of_a_pattern_are_available_for_a_language_that_computes_them() -> None:
    assert [operand for _, operand in LANGUAGE.predicates({"over": "$low", "even": "$yes"})] == ["$low", "$yes"]
    assert [operand for _, operand in LANGUAGE.predicates("$low")] == ["$low"]


def test_structure_names_the_first_member_or_item_that_does_not_fit() -> None:
    def mismatch(pattern: Json, value: Json, *, is_exact: bool = False) -> str:
        texts = StructureTexts(root="/", not_map="{at}: map", not_list="{at}: list", length="{at}: {found}/{wanted}")
        return structure_mismatch(pattern, value, "", LANGUAGE.mismatch, texts, is_exact=is_exact)

    assert mismatch({"a": {"over": 1}}, {"a": 2, "b": 0}) == ""
    assert mismatch({"a": {"over": 1}}, {"a": 1}) == "/a is not over 1"
    assert mismatch({"a": 1}, {}) == "/a is missing"
    assert mismatch({"a": 1}, {"a": 1, "b": 0}, is_exact=True) == "/b should not be there"
    assert mismatch([1, {"over": 1}], [1, 1]) == "/1 is not over 1"
    assert [mismatch({}, []), mismatch([], {}), mismatch([1], [])] == ["/: map", "/: list", "/: 0/1"]


def test_true_is_neither_a_number_nor_equal_to_one() -> None:
    assert is_same(1, 1.0)
    assert not is_same(1, True)
    assert [is_number(value) for value in (1, 1.5, True, "1", None)] == [True, True, False, False, False]


def test_an_excerpt_of_a_long_value_ends_with_an_ellipsis() -> None:
    assert excerpt({"a": 1}) == '{"a":1}'
    assert excerpt("x" * 500).endswith("…")
