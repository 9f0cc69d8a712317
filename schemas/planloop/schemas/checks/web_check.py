"""A web check as values: browser actions, and expectations about the page.

Written by `planloop.schemas.checks.web_parser`; the shipped names of targets are in
`planloop.schemas.checks.web_targets`. What a step does and when an expectation holds is
`planloop.controllers.task.checks.web`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from planloop.schemas.frozen import frozen


@frozen
class TextPattern:
    """A text, or a regular expression that was written between slashes. Capitals, accents and spaces do not count."""

    text: str
    is_pattern: bool = False

    def __str__(self) -> str:
        return f"/{self.text}/" if self.is_pattern else self.text


@frozen
class RelativePlace:
    """Position of an element without a name: among elements of its role, or next to another name `of`."""

    kind: Literal["only", "first", "last", "before", "after"]
    of: str = ""


@frozen
class ElementQuery:
    """One meaning of a target. What is given holds together; `name` alone is looked for in several places.

    `key` is what to press in the field filled last to the same end, and stands alone.
    """

    roles: tuple[str, ...] = ()
    name: TextPattern | None = None
    types: tuple[str, ...] = ()
    autocomplete: tuple[str, ...] = ()
    text: TextPattern | None = None
    place: RelativePlace | None = None
    key: str = ""


Meaning: TypeAlias = tuple[ElementQuery, ...]
"""The ways of one target, in order."""


@frozen
class CellTarget:
    """A cell of the board that was found under the name `board`; row and column count from 1."""

    board: str
    row: int
    column: int


@frozen
class WebTarget:
    """What a step is about, as it is `written`: an element of this meaning, or a cell."""

    written: str
    meaning: Meaning = ()
    cell: CellTarget | None = None


Seen: TypeAlias = TextPattern | WebTarget
"""What may be visible."""


@frozen
class OpenPage:
    """Goes to `path`, relative to the check's URL."""

    path: str


@frozen
class FillField:
    """Replaces what a field holds."""

    target: WebTarget
    text: str


@frozen
class ClickElement:
    """Clicks."""

    target: WebTarget


@frozen
class PressKey:
    """Presses a key where the focus is."""

    key: str


@frozen
class TypeText:
    """Types where the focus is."""

    text: str


@frozen
class ChooseOption:
    """Takes the option with these words."""

    target: WebTarget
    option: TextPattern


@frozen
class DragElement:
    """Drags one thing onto another."""

    source: WebTarget
    to: WebTarget


@frozen
class ReloadPage:
    """Loads the page again."""


@frozen
class GoBack:
    """Goes to the page before."""


@frozen
class Pause:
    """Does nothing for some time."""

    seconds: float


@frozen
class FindBoard:
    """Finds `rows` times `columns` cells by their layout, known as `name` from then on."""

    rows: int
    columns: int
    name: str


@frozen
class MaybeSteps:
    """Does its steps if there is what the first of them is about."""

    steps: tuple[WebStep, ...]


@frozen
class ExpectVisible:
    """Holds when it is visible, when it is `gone`, or when it `appears` since the last action."""

    what: Seen
    how: Literal["see", "gone", "appears"]


@frozen
class ExpectCount:
    """Passes if the number of visible elements is in the range; None removes that bound."""

    what: Seen
    least: int
    most: int | None


@frozen
class ExpectChange:
    """Holds when this, or the page, is another than before the last action."""

    on: WebTarget | None


@frozen
class ExpectValue:
    """Holds when the field has this value, or the element this text."""

    target: WebTarget
    wanted: TextPattern


@frozen
class ExpectEnabled:
    """Holds when it can be used, or cannot."""

    target: WebTarget
    is_wanted: bool


@frozen
class ExpectFocusable:
    """Holds when the keyboard reaches it."""

    target: WebTarget


@frozen
class ExpectTitle:
    """Holds when the page's title has these words."""

    wanted: TextPattern


@frozen
class ExpectPageAddress:
    """Holds when the page's address has these words."""

    wanted: TextPattern


@frozen
class ExpectPicture:
    """Holds when its pixels, or those of the page, are others than before the last action."""

    on: WebTarget | None


@frozen
class ExpectAnyOf:
    """Holds when all expectations of one alternative do."""

    alternatives: tuple[tuple[WebStep, ...], ...]


WebAction: TypeAlias = (
    OpenPage
    | FillField
    | ClickElement
    | PressKey
    | TypeText
    | ChooseOption
    | DragElement
    | ReloadPage
    | GoBack
    | Pause
    | FindBoard
    | MaybeSteps
)
WebExpectation: TypeAlias = (
    ExpectVisible
    | ExpectCount
    | ExpectChange
    | ExpectValue
    | ExpectEnabled
    | ExpectFocusable
    | ExpectTitle
    | ExpectPageAddress
    | ExpectPicture
    | ExpectAnyOf
)
EXPECTATIONS: Final = (
    ExpectVisible,
    ExpectCount,
    ExpectChange,
    ExpectValue,
    ExpectEnabled,
    ExpectFocusable,
    ExpectTitle,
    ExpectPageAddress,
    ExpectPicture,
    ExpectAnyOf,
)


@frozen
class WebStep:
    """One thing to do or to look for. `who` is a context, empty for each of them; None: the check's own time."""

    does: WebAction | WebExpectation
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

    steps: tuple[WebStep, ...]
    is_never: bool = False
    forbidden: tuple[WebStep, ...] = ()
    also: tuple[WebStep, ...] = ()
    url: str = ""
    contexts: tuple[str, ...] = ()
    lexicon: Mapping[str, Meaning] = {}
    within_s: float = 3.0

    @property
    def people(self) -> tuple[str, ...]:
        """The contexts, of which one without a name is there when none is named."""
        return self.contexts or ("",)

    @property
    def every_step(self) -> tuple[WebStep, ...]:
        return self.steps + self.forbidden + self.also
