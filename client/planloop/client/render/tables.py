"""Plain text tables that fit the width of the terminal, and what a value or a call is in one cell.

A terminal narrower than the table loses empty columns first, then the end of long names and of the last column, then
further columns. A pipe loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from planloop.schemas import quantities
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.quantities import cell_width, pad_cells, truncate_cells
from planloop.schemas.resource import Resource

GAP = "   "
NAME_MIN = 8
LAST_WANTED = 24  # The last column says why: with less room than this for it, empty ones go.
LAST_MIN = 12  # And with less than this, others as well.
KEPT_FIRST = 2  # A name and a state.
NAME_SHARE = 2  # A name takes at most half of the terminal, to leave room for its text.


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Lines under an upper-case head. `width` None: as wide as it gets."""
    cells: list[Sequence[str]] = [[name.upper() for name in head], *rows]
    if width is not None:
        cells = _narrowed(cells, width)
        head = cells[0]
    widths = [max(cell_width(row[column]) for row in cells) for column in range(len(head))]
    if len(head) > 1:
        widths[0] = name_width(widths[0], width)
        cells = [[truncate_cells(row[0], widths[0]), *row[1:]] for row in cells]
    return "\n".join(_line(row, widths, width) for row in cells)


def _narrowed(cells: list[Sequence[str]], width: int) -> list[Sequence[str]]:
    """Without columns that the last one needs the room of: the empty ones, then from the right."""
    last = len(cells[0]) - 1
    if _least_wide(cells, LAST_WANTED) > width:
        kept = [at for at in range(last + 1) if at in (0, last) or any(row[at] for row in cells[1:])]
        cells = [[row[at] for at in kept] for row in cells]
    while len(cells[0]) > KEPT_FIRST + 1 and _least_wide(cells, LAST_MIN) > width:
        cells = [[*row[:-2], row[-1]] for row in cells]
    return cells


def _least_wide(cells: Sequence[Sequence[str]], last: int) -> int:
    """The cells that the table takes when its last column takes at most `last`."""
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    return sum(widths[:-1]) + min(widths[-1], last) + len(GAP) * (len(widths) - 1)


def name_width(wanted: int, width: int | None) -> int:
    """The cells for a column of names that would take `wanted`, on a terminal of `width`."""
    return wanted if width is None else min(wanted, max(width // NAME_SHARE, NAME_MIN))


def _line(row: Sequence[str], widths: Sequence[int], width: int | None) -> str:
    line = GAP.join(pad_cells(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
    return line if width is None else truncate_cells(line, width)


ARGUMENT_MAX = 60  # Cells: a file's content is not for a line.


def value_text(value: Json) -> str:
    """Return a result for readers: text unchanged, of a map the part meant for readers."""
    match value:
        case None:
            return ""
        case {"text": str(text)} | {"message": str(text)}:
            return text.strip()
        case dict():
            return ", ".join(f"{key} {one}" for key, one in value.items())
        case _:
            return str(value)


def call_text(item: Resource) -> str:
    """`shell("git push origin fix")`."""
    return call_words(item.spec)


def call_words(spec: JsonObject) -> str:
    """Return the same for a call given as `tool` and `arguments`."""
    return f"{spec.get('tool', '')}({one_line(_shown_arguments(spec.get('arguments') or {}))})"


def _shown_arguments(arguments: Json) -> str:
    if not isinstance(arguments, dict):  # A model may write anything there.
        arguments = {"given": arguments}
    values = [value for value in arguments.values() if isinstance(value, str | int | list)]
    shown = (repr(value) if isinstance(value, str) else str(value) for value in values[:3])
    return ", ".join(quantities.truncate_cells(value, ARGUMENT_MAX) for value in shown)


def one_line(text_: str) -> str:
    """The first line, with a mark when there are more."""
    first, _, rest = text_.strip().partition("\n")
    return first + (" …" if rest.strip() else "")
