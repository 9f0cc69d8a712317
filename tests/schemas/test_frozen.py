"""What `@frozen` makes is what `@dataclass(frozen=True, slots=True)` makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from planloop.schemas.frozen import frozen, members, mutable, remade
from tests.golden_text import said


@frozen
class Quick:
    """A point in a plan."""

    at: int
    name: str = "x"
    tags: dict[str, int] = field(default_factory=dict)
    cache: list[int] = field(default_factory=list, repr=False, compare=False)

    @property
    def double(self) -> int:
        return self.at * 2


@dataclass(frozen=True, slots=True)
class Standard:
    """A point in a plan."""

    at: int
    name: str = "x"
    tags: dict[str, int] = field(default_factory=dict)
    cache: list[int] = field(default_factory=list, repr=False, compare=False)


@frozen
class Empty:
    """Nothing to say."""


@frozen
class Single:
    """One thing."""

    value: float


def test_values_are_equal_when_their_compared_fields_are_and_only_in_one_class() -> None:
    assert Quick(1) == Quick(1, "x", {}, [7])
    assert Quick(1) != Quick(2)
    assert Quick(1) != Standard(1)  # type: ignore[comparison-overlap]
    assert Empty() == Empty()
    assert hash(Single(1.5)) == hash(Single(1.5))


def test_frozen_class_prints_like_a_standard_dataclass() -> None:
    assert repr(Quick(1, "n", {"a": 1})) == repr(Standard(1, "n", {"a": 1})).replace("Standard", "Quick")


def test_defaults_are_created_for_each_instance() -> None:
    first = Quick(1)
    first.tags["a"] = 1

    assert Quick(1).tags == {}


def test_nothing_can_be_set_added_or_deleted() -> None:
    made: Any = Quick(1)
    for name in ("at", "other"):
        with pytest.raises(AttributeError):
            setattr(made, name, 2)
    with pytest.raises(AttributeError):
        del made.at
    assert not hasattr(made, "__dict__")


def test_the_tools_for_dataclasses_know_it() -> None:
    made = Quick(1, tags={"a": 1})

    assert dataclasses.is_dataclass(made)
    assert dataclasses.replace(made, at=2) == Quick(2, tags={"a": 1})
    assert dataclasses.asdict(made) == dataclasses.asdict(Standard(1, tags={"a": 1}))
    assert [one.name for one in dataclasses.fields(Quick)] == [one.name for one in dataclasses.fields(Standard)]
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    match made:
        case Quick(at, name):
            assert (at, name, made.double) == (1, "x", 2)


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match="at"):
        Quick()  # type: ignore[call-arg]


def test_field_without_a_default_after_one_with_it_is_refused() -> None:
    with pytest.raises(AssertionError) as caught:

        @frozen
        class _Bad:
            one: int = 1
            two: int  # type: ignore[misc]

    said(str(caught.value))


@frozen
class Secret:
    """Its key is not shown, and has no default."""

    key: str = field(repr=False)
    number: int


def test_annotation_only_member_has_no_default() -> None:
    with pytest.raises(TypeError, match="key"):
        Secret(number=1)  # type: ignore[call-arg]
    assert repr(Secret("k", 1)) == "Secret(number=1)"


def test_computed_default_is_refused() -> None:
    with pytest.raises(AssertionError, match="init=False"):

        @mutable
        class _Late:
            one: int = field(init=False)

    with pytest.raises(AssertionError, match="__post_init__"):

        @mutable
        class _Computed:
            one: int

            def __post_init__(self) -> None:
                self.one += 1

    with pytest.raises(AssertionError, match="keywords only"):

        @frozen
        class _Keyword:
            one: int = field(kw_only=True)


def test_a_class_that_inherits_is_refused() -> None:
    with pytest.raises(AssertionError, match="standard"):

        @frozen
        class Below(Single):
            """More."""


@frozen
class Many:
    """Members with and without defaults."""

    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int = 7
    h: list[int] = field(default_factory=list)
    i: str = "i"


class BelowMany(Many):
    """It has no members of its own."""


@pytest.mark.parametrize("kind", [Many, BelowMany])
def test_a_class_with_many_members_is_as_frozen_as_one_with_few(kind: type[Many]) -> None:
    made = kind(1, 2, 3, 4, e=5, f=6)
    assert type(made) is kind
    assert [getattr(made, name) for name in "abcdefghi"] == [1, 2, 3, 4, 5, 6, 7, [], "i"]
    assert dataclasses.replace(made, c=9).c == 9
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    assert made.h is not kind(1, 2, 3, 4, 5, 6).h
    with pytest.raises(AttributeError):
        made.a = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        kind(1)  # type: ignore[call-arg]


def test_a_remade_value_differs_in_the_members_named() -> None:
    many, single = Many(1, 2, 3, 4, 5, 6), Single(1.5)
    assert remade(many, c=9, i="j") == dataclasses.replace(many, c=9, i="j")
    assert remade(single, value=2.0) == Single(2.0)
    assert remade(Empty()) == Empty()
    with pytest.raises(TypeError, match="z"):
        remade(many, z=1)


@mutable
class Count:
    """A counter."""

    name: str
    count: int = 0
    seen: list[int] = field(default_factory=list)


@mutable
class Cached:
    """What is compared without what it keeps."""

    name: str
    kept: list[int] = field(default_factory=list, compare=False)


def test_mutable_record_allows_setting_its_members_and_is_not_hashable() -> None:
    one, other = Count("a"), Count("a")
    one.count += 1
    one.seen.append(1)

    assert (one.count, other.count, other.seen) == (1, 0, [])
    assert one != other and Count("a") == other
    with pytest.raises(AttributeError):
        one.total = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="hash"):
        hash(one)
    with pytest.raises(TypeError, match="hash"):
        hash(Cached("a"))
    assert Cached("a", [1]) == Cached("a")
    assert dataclasses.replace(one, name="b") == Count("b", 1, [1])
    assert repr(other) == "Count(name='a', count=0, seen=[])"


def test_members_are_passed_by_name() -> None:
    tags = {"a": 1}
    found = members(Quick(1, tags=tags))

    assert list(found) == ["at", "name", "tags", "cache"]
    assert found["tags"] is tags
