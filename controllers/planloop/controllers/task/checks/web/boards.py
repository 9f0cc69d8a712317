"""Find a board of rows and columns on a page by its layout, whatever elements it is made of. Pure.

Cells are elements of one kind and depth below one container whose centers form a grid, or direct children of several
kinds: a link may become plain text once the cell is taken. A canvas or SVG has no cells and is cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from planloop.controllers.task.checks.web.page_snapshot import PageBox, PageElement, PageSnapshot
from planloop.schemas import limits
from planloop.schemas.checks.web_check import CellTarget
from planloop.schemas.frozen import frozen

_SIDE_MIN: Final = 4.0  # Pixels; a smaller cell cannot be clicked reliably.
_PICTURE_MIN: Final = 40.0
_ANY: Final = ""
"""Key of a group with elements of any tag."""


@frozen
class BoardCell:
    """A cell: the element `node`, and the point in it to use, as shares of its width and height."""

    node: int
    at: tuple[float, float] = (0.5, 0.5)


@frozen
class BoardGrid:
    """A board: its cells row by row, `columns` in each."""

    columns: int
    squares: tuple[BoardCell, ...]

    def square(self, cell: CellTarget) -> BoardCell:
        return self.squares[(cell.row - 1) * self.columns + cell.column - 1]


def find_boards(sight: PageSnapshot, rows: int, columns: int, most: int = limits.WEB_CANDIDATES_MAX) -> list[BoardGrid]:
    """Return the boards of this size on the page, the most likely first."""
    found: dict[tuple[tuple[int, int], ...], tuple[float, list[PageElement]]] = {}
    for group in _groups(sight, rows * columns):
        lattice = _lattice(group, rows, columns)
        if lattice is None:
            continue
        middles = tuple((round(one.box.middle[0] / 4), round(one.box.middle[1] / 4)) for one in lattice)
        score = _score(lattice)
        if middles not in found or score > found[middles][0]:
            found[middles] = (score, lattice)
    boards = sorted(found.values(), key=lambda row: -row[0])
    grids = [BoardGrid(columns, tuple(BoardCell(one.node) for one in lattice)) for _, lattice in boards]
    return [*grids, *_pictured(sight, rows, columns)][:most]


def _groups(sight: PageSnapshot, size: int) -> Iterator[list[PageElement]]:
    """Yield groups of `size` elements: of one kind below one container, or of any kind directly below it."""
    below: dict[tuple[int, int, str], list[PageElement]] = {}
    for one in sight.elements:
        if one.box.width < _SIDE_MIN or one.box.height < _SIDE_MIN:
            continue
        below.setdefault((one.parent, one.depth, _ANY), []).append(one)
        above = one.parent
        while above >= 0:
            below.setdefault((above, one.depth, one.tag), []).append(one)
            above = sight.elements[above].parent
    for group in below.values():
        if len(group) == size:
            yield group
        elif len(group) > size:
            yield from _of_one_kind(group, size)


def _of_one_kind(group: list[PageElement], size: int) -> Iterator[list[PageElement]]:
    """Yield the parts of a larger group with the same size, class or role."""
    kinds: dict[tuple[str, object], list[PageElement]] = {}
    for one in group:
        classes = one.attributes.get("class", "").split()
        kinds.setdefault(("size", (round(one.box.width), round(one.box.height))), []).append(one)
        kinds.setdefault(("role", one.role), []).append(one)
        for name in set(classes):
            kinds.setdefault(("class", name), []).append(one)
    yield from (alike for alike in kinds.values() if len(alike) == size)


def _lattice(group: list[PageElement], rows: int, columns: int) -> list[PageElement] | None:
    """Return the elements row by row; None if they do not form rows and columns."""
    by_row = sorted(group, key=lambda one: one.box.middle[1])
    lines = [sorted(by_row[at : at + columns], key=lambda one: one.box.x) for at in range(0, len(by_row), columns)]
    if len(lines) != rows or len({one.box.document for one in group}) > 1:
        return None
    if not all(_apart([one.box for one in line], is_row=True) for line in lines):
        return None
    tops = [line[0].box for line in lines]
    if not _apart(tops, is_row=False):
        return None
    if not all(_aligned((line[at].box for line in lines), is_row=False) for at in range(columns)):
        return None
    return (
        [one for line in lines for one in line]
        if all(_aligned((c.box for c in line), is_row=True) for line in lines)
        else None
    )


def _apart(boxes: list[PageBox], *, is_row: bool) -> bool:
    """Whether each box begins where the previous one ends, allowing for a border."""
    pairs = pairwise(boxes)
    if is_row:
        return all(one.x + one.width <= other.x + 2 for one, other in pairs)
    return all(one.y + one.height <= other.y + 2 for one, other in pairs)


def _aligned(boxes: Iterable[PageBox], *, is_row: bool) -> bool:
    """Whether the centers are on one line."""
    middles = [(box.middle[1], box.height) if is_row else (box.middle[0], box.width) for box in boxes]
    least = min(size for _, size in middles)
    return max(middle for middle, _ in middles) - min(middle for middle, _ in middles) <= least / 2


def _score(lattice: list[PageElement]) -> float:
    """Return how much the grid looks like a board to play on."""
    count = len(lattice)
    usable = sum(one.is_clickable for one in lattice) / count
    spoken = sum(one.role in ("button", "gridcell", "cell") for one in lattice) / count
    areas = [one.box.width * one.box.height for one in lattice]
    alike = min(areas) / max(areas)
    inner = min(lattice[0].depth, 50) / 1000  # Prefer the button that fills a cell to the cell.
    return 4 * usable + spoken + alike + min(max(areas), 10_000) / 10_000 + inner


def _pictured(sight: PageSnapshot, rows: int, columns: int) -> list[BoardGrid]:
    """Return canvas and SVG elements as boards cut into equal parts, the largest first."""
    drawn = [
        one
        for one in sight.elements
        if one.tag in ("canvas", "svg") and min(one.box.width, one.box.height) >= _PICTURE_MIN
    ]
    drawn.sort(key=lambda one: -one.box.width * one.box.height)
    return [
        BoardGrid(
            columns,
            tuple(
                BoardCell(one.node, ((column + 0.5) / columns, (row + 0.5) / rows))
                for row in range(rows)
                for column in range(columns)
            ),
        )
        for one in drawn
    ]
