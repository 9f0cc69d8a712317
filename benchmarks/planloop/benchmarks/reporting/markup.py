"""HTML and SVG as values: everything that is not markup is escaped."""

from __future__ import annotations

import html
from typing import Final

from planloop.schemas.amounts import replace_control_chars


class Markup(str):
    """Text that is markup. Only `element`, `joined` and constants make some."""

    __slots__ = ()


_VOID: Final = frozenset({"meta", "br", "line", "circle", "rect"})


def element(name: str, /, *children: str | None, **attributes: object) -> Markup:
    """`<name …>children</name>`. What is None is left out; the attribute `class_` is `class`, `x_y` is `x-y`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>" if name in ("meta", "br") else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join_markup(*children)}</{name}>")


def join_markup(*parts: str | None) -> Markup:
    """One after the other; text among them is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else _escaped(part) for part in parts if part is not None))


def _escaped(text: str) -> str:
    return html.escape(replace_control_chars(text), quote=True)
