"""What a web check says, read: steps that somebody does in a browser, and what is looked for on the page.

Written by `web_reading.py`; the shipped names of targets are in `web_lexicon.py`. What a step does and when an
expectation holds is `planloop.controllers.task.checking.web`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.schemas.frozen import frozen


@frozen
class Words:
    """A text, or a regular expression that was written between slashes. Capitals, accents and spaces do not count."""

    text: str
    is_pattern: bool = False

    def __str__(self) -> str:
        return f"/{self.text}/" if self.is_pattern else self.text


@frozen
class Place:
    """Where something is when nothing says what it is: among those of its role, or beside another name `of`."""

    kind: Literal["only", "first", "last", "before", "after"]
    of: str = ""


@frozen
class Way:
    """One meaning of a target. What is given holds together; `name` alone is looked for in several places.

    `key` is what to press in the field filled last to the same end, and stands alone.
    """

    roles: tuple[str, ...] = ()
    name: Words | None = None
    types: tuple[str, ...] = ()
    autocomplete: tuple[str, ...] = ()
    text: Words | None = None
    place: Place | None = None
    key: str = ""


Meaning: TypeAlias = tuple[Way, ...]
"""The ways of one target, in order."""


@frozen
class Cell:
    """A cell of the board that was found under the name `board`; row and column count from 1."""

    board: str
    row: int
    column: int


@frozen
class Target:
    """What a step is about, as it is `written`: an element of this meaning, or a cell."""

    written: str
    meaning: Meaning = ()
    cell: Cell | None = None


Seen: TypeAlias = Words | Target
"""What may be visible."""


@frozen
class Open:
    """Goes to `path`, relative to the check's URL."""

    path: str


@frozen
class Fill:
    """Replaces what a field holds."""

    target: Target
    text: str


@frozen
class Press:
    """Clicks."""

    target: Target


@frozen
class Key:
    """Presses a key where the focus is."""

    key: str


@frozen
class Type:
    """Types where the focus is."""

    text: str


@frozen
class Choose:
    """Takes the option with these words."""

    target: Target
    option: Words


@frozen
class Drag:
    """Drags one thing onto another."""

    source: Target
    to: Target


@frozen
class Reload:
    """Loads the page again."""


@frozen
class Back:
    """Goes to the page before."""


@frozen
class Wait:
    """Does nothing for some time."""

    seconds: float


@frozen
class Board:
    """Finds `rows` times `columns` cells by their layout, known as `name` from then on."""

    rows: int
    columns: int
    name: str


@frozen
class Maybe:
    """Does its steps if there is what the first of them is about."""

    steps: tuple[Step, ...]


@frozen
class See:
    """Holds when it is visible, when it is `gone`, or when it `appears` since the last action."""

    what: Seen
    how: Literal["see", "gone", "appears"]


@frozen
class Count:
    """Holds when as many are visible; None is no bound."""

    what: Seen
    least: int
    most: int | None


@frozen
class Changes:
    """Holds when this, or the page, is another than before the last action."""

    on: Target | None


@frozen
class Value:
    """Holds when the field has this value, or the element this text."""

    target: Target
    wanted: Words


@frozen
class Enabled:
    """Holds when it can be used, or cannot."""

    target: Target
    is_wanted: bool


@frozen
class Focusable:
    """Holds when the keyboard reaches it."""

    target: Target


@frozen
class Title:
    """Holds when the page's title has these words."""

    wanted: Words


@frozen
class Address:
    """Holds when the page's address has these words."""

    wanted: Words


@frozen
class Picture:
    """Holds when its pixels, or those of the page, are others than before the last action."""

    on: Target | None


@frozen
class AnyOf:
    """Holds when all expectations of one alternative do."""

    alternatives: tuple[tuple[Step, ...], ...]


Action: TypeAlias = Open | Fill | Press | Key | Type | Choose | Drag | Reload | Back | Wait | Board | Maybe
Expectation: TypeAlias = See | Count | Changes | Value | Enabled | Focusable | Title | Address | Picture | AnyOf
EXPECTATIONS: Final = (See, Count, Changes, Value, Enabled, Focusable, Title, Address, Picture, AnyOf)


@frozen
class Step:
    """One thing to do or to look for. `who` is a context, empty for each of them; None: the check's own time."""

    does: Action | Expectation
    written: str
    who: str = ""
    within_s: float | None = None

    @property
    def is_expectation(self) -> bool:
        return isinstance(self.does, EXPECTATIONS)


@frozen
class WebCheck:
    """A whole check. With `is_never` the steps end where the forbidden state begins, which is `forbidden`.

    `also` is what must hold in its place. `lexicon` has every name that a place may be beside.
    """

    steps: tuple[Step, ...]
    is_never: bool = False
    forbidden: tuple[Step, ...] = ()
    also: tuple[Step, ...] = ()
    url: str = ""
    contexts: tuple[str, ...] = ()
    lexicon: Mapping[str, Meaning] = {}
    within_s: float = 3.0

    @property
    def people(self) -> tuple[str, ...]:
        """The contexts, of which one without a name is there when none is named."""
        return self.contexts or ("",)

    @property
    def every_step(self) -> tuple[Step, ...]:
        return self.steps + self.forbidden + self.also
