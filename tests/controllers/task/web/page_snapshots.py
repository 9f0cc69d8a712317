"""Handwritten page snapshots: rows of elements, for pure functions."""

from __future__ import annotations

from typing import Any

from planloop.controllers.task.checks.web.page_snapshot import PageBox, PageElement, PageSnapshot


def element(
    tag: str = "div", text: str = "", box: tuple[float, float, float, float] = (0, 0, 100, 20), **more: Any
) -> Any:
    """An element with its own text, for `sight`; `within` is the place of its parent."""
    return {"tag": tag, "text": text, "box": box, **more}


def sight(*rows: Any) -> PageSnapshot:
    """The rows in the order of the document, each with a line of text of its own."""
    pieces: list[str] = []
    made: list[PageElement] = []
    for node, row in enumerate(rows, 1):
        begin = len(pieces)
        if row["text"]:
            pieces.extend([row["text"], "\n"])
        parent = row.get("within", -1)
        made.append(
            PageElement(
                node=node,
                parent=parent,
                depth=made[parent].depth + 1 if parent >= 0 else 0,
                tag=row["tag"],
                attributes=row.get("attributes", {}),
                role=row.get("role", ""),
                name=row.get("name", ""),
                named_by=row.get("named_by", ""),
                box=PageBox(*row["box"]),
                span=(begin, len(pieces)),
                value=row.get("value"),
                is_clickable=row.get("is_clickable", row.get("role") in ("button", "link")),
                is_focusable=row.get("is_focusable", False),
                is_disabled=row.get("is_disabled", False),
                is_editable=row.get("value") is not None,
            )
        )
    return PageSnapshot(elements=tuple(made), pieces=tuple(pieces))
