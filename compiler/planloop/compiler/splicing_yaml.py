"""Edits YAML in place: blocks, brackets, scalars in their quoting style, comments kept with what they tell of.

A comment block directly above an item is the item's; so are deeper comments below it. A blank line separates. What
stands in brackets is `planloop.compiler.splicing_flow`.
"""

from __future__ import annotations

import re
from typing import Final

from yaml.nodes import CollectionNode, MappingNode, ScalarNode, SequenceNode

from planloop.compiler import yaml_writing
from planloop.compiler.edits import CannotSplice, Change, Edits, Lines, NodeKind
from planloop.compiler.reading_yaml import YamlTree
from planloop.compiler.splicing_flow import FlowEdits
from planloop.compiler.syntax import Path
from planloop.compiler.yaml_layout import Entry
from planloop.compiler.yaml_rows import Row, YamlRows
from planloop.compiler.yaml_writing import YamlStyle
from planloop.schemas.encoding import Json

_PROPERTIES: Final = re.compile(r"(?:![^\s]*\s+)?&([^\s,\[\]{}]+)")
_BLOCK_HEADER: Final = re.compile(r"[|>][0-9+-]*")
_BLOCK_TEXT: Final = re.compile(r"[|>][0-9+-]*[ \t]*(?:#[^\n\r]*)?(?=\r|\n)")


class YamlEditor:
    """See `planloop.compiler.edits.Editor`."""

    def __init__(self, tree: YamlTree) -> None:
        layout = tree.layout
        assert layout is not None, "a text that could not be read is not edited"
        self._layout = layout
        self._text = tree.text
        self._lines = Lines(tree.text, "#")
        self._edits = Edits(tree.text)
        self._rows = YamlRows(tree.text, layout)
        self._has_blocks = _BLOCK_TEXT.search(tree.text) is not None
        self._flow = FlowEdits(self._text, self._lines, self._edits)

    def applied(self) -> str:
        return self._edits.applied()

    def kind(self, path: Path) -> NodeKind | None:
        entry = self._layout.entry(path)
        if entry is None:
            return None
        if isinstance(entry.node, CollectionNode):
            return "map" if isinstance(entry.node, MappingNode) else "list"
        return "plain"

    def length(self, path: Path) -> int:
        return len(self._entry(path).node.value)

    def replace(self, path: Path, value: Json) -> None:
        if not path:
            raise CannotSplice("the whole plan would be replaced")
        parent = self._editable(path[:-1])
        self._editable(path)
        row = self._row(parent, path[-1])
        self._want_unused_anchors(row)
        node = row.value.node
        if isinstance(parent.node, CollectionNode) and parent.node.flow_style:
            is_json = self._flow.is_json(self._rows.of(parent.node))
            self._edits.replace(row.value.start, row.end, self._inline(value, row, is_json=is_json))
        elif isinstance(node, ScalarNode):
            self._replace_scalar(row, value, len(path))
        elif not isinstance(node, CollectionNode) or node.flow_style or not node.value:
            self._edits.replace(row.value.start, row.end, yaml_writing.one_line(value))
        else:
            self._replace_block(row, value, len(path))

    def change(self, path: Path, change: Change) -> None:
        entry = self._editable(path)
        node = entry.node
        if not isinstance(node, CollectionNode):
            raise CannotSplice("a plain value stands where a map or a list is wanted")
        rows = self._rows.of(node)
        if isinstance(node, SequenceNode):
            id_key = self._id_key(node)
            change.inserted += [(len(rows), {id_key: key, **value}) for key, value in change.added]
            change.added = []
        for row in rows:
            if row.token in change.removed:
                self._want_unused_anchors(row)
        if node.flow_style or not node.value:
            self._flow.change(entry, rows, change)
        else:
            self._change_block(path, entry, rows, change)

    # Blocks

    def _change_block(self, path: Path, entry: Entry, rows: list[Row], change: Change) -> None:
        kept = [row for row in rows if row.token not in change.removed]
        style = self._rows.style(rows)
        column = self._lines.column(rows[0].start)
        added = [yaml_writing.entry(key, value, column, style) for key, value in change.added]
        if not kept:
            items = [yaml_writing.item(value, column, style) for _, value in change.inserted]
            self._refill(path, entry, rows, added + items)
            return
        self._remove_rows(rows, kept, is_root=not path, removed=change.removed)
        for block in added:
            self._insert_after(kept[-1], rows, block, len(path))
        for index, value in change.inserted:
            block = yaml_writing.item(value, column, style)
            before = [row for row in kept if isinstance(row.token, int) and row.token < index]
            if before:
                self._insert_after(before[-1], rows, block, len(path))
            else:
                self._insert_before(kept[0], block)

    def _remove_rows(self, rows: list[Row], kept: list[Row], *, is_root: bool, removed: set[str | int]) -> None:
        gone = [row for row in rows if row.token in removed]
        if gone and gone[0] is rows[0] and not self._lines.begins(rows[0].start):
            before = [row for row in gone if row.start < kept[0].start]
            tail = self._tail(before[-1])
            if self._text[tail : kept[0].start].strip():
                # A comment tells of the next key: both stay where they are, below the dash alone.
                dash_end = len(self._text[: rows[0].start].rstrip(" "))
                self._edits.delete(dash_end, tail)
            else:
                self._edits.delete(rows[0].start, kept[0].start)  # The next key moves up behind the dash.
            gone = [row for row in gone if row not in before]
        for row in gone:
            self._edits.delete(*self._lines_of(row, with_comments=not (is_root and row is rows[0])))

    def _lines_of(self, row: Row, *, with_comments: bool) -> tuple[int, int]:
        """The whole lines of a row, with the comments that are its own."""
        start = self._lines.block_start(row.start) if with_comments else self._lines.start(row.start)
        end = self._tail(row)
        if end == len(self._text) and self._has_blocks:
            return start, end  # The line break above stays: a block text there would lose its last one.
        return self._lines.taken_out(start, end)

    def _tail(self, row: Row) -> int:
        """The end of the last line that belongs to a row: its own, or a deeper comment below it."""
        rest = self._text[row.end : self._lines.end(row.end)]
        if rest.strip() and not re.match(r"[ \t]+#", rest):
            raise CannotSplice("something else stands in the same line")
        return self._lines.end_of_deeper_comments(self._lines.end(row.end), self._lines.column(row.start))

    def _insert_after(self, row: Row, rows: list[Row], block: list[str], depth: int) -> None:
        newline, column = self._lines.newline, self._lines.column(rows[0].start)
        gap = newline if self._is_spaced(rows) else ""
        lines = [" " * column + block[0], *block[1:]]
        self._edits.insert(self._tail(row), gap + "".join(newline + line for line in lines), depth)

    def _insert_before(self, row: Row, block: list[str]) -> None:
        if not self._lines.begins(row.start):
            raise CannotSplice("a list begins behind another dash")
        column = self._lines.column(row.start)
        lines = [" " * column + block[0], *block[1:]]
        self._edits.insert(self._lines.block_start(row.start), "".join(line + self._lines.newline for line in lines))

    def _is_spaced(self, rows: list[Row]) -> bool:
        """Whether the last two rows have a blank line between them, as the next one then shall."""
        return len(rows) > 1 and self._lines.is_blank_above(self._lines.block_start(rows[-1].start))

    def _refill(self, path: Path, entry: Entry, rows: list[Row], blocks: list[list[str]]) -> None:
        """Puts `blocks` where all rows of a block collection go; brackets when there are none."""
        if not path and not blocks:
            raise CannotSplice("nothing of the plan would be left")
        newline, column = self._lines.newline, self._lines.column(rows[0].start)
        first, *rest = [
            line for n, block in enumerate(blocks) for line in [" " * column * bool(n) + block[0], *block[1:]]
        ] or ["{}" if isinstance(entry.node, MappingNode) else "[]"]
        if not self._lines.begins(rows[0].start):
            self._edits.replace(rows[0].start, self._tail(rows[-1]), newline.join([first, *rest]))
            return
        gone = [self._lines_of(row, with_comments=bool(path)) for row in rows]
        for stretch in gone:
            self._edits.delete(*stretch)
        if not path:
            at = gone[0][0]
            text = newline.join([first, *rest])
            self._edits.insert(at, newline + text if at else text + newline)
            return
        parent = self._row(self._entry(path[:-1]), path[-1])
        if not blocks:
            self._edits.insert(parent.colon, f" {first}")
            return
        lines = [" " * column + first, *rest]
        self._edits.insert(self._lines.end(parent.colon), "".join(newline + line for line in lines), len(path))

    def _replace_block(self, row: Row, value: Json, depth: int) -> None:
        style = self._rows.style([])
        if not self._lines.begins(row.value.start):
            lines = self._item_lines(value, self._lines.column(row.value.start), style)
            self._edits.replace(row.value.start, self._tail(row), self._lines.newline.join(lines))
            return
        self._edits.delete(self._lines.end(row.colon), self._tail(row))
        self._write_after(row, value, depth, style)

    def _write_after(self, row: Row, value: Json, depth: int, style: YamlStyle) -> None:
        """Writes a value behind a colon or dash whose old value is being deleted."""
        head, *rest = yaml_writing.after_key(value, self._lines.column(row.start), style)
        self._edits.insert(row.colon, head, depth + 1)
        if rest:
            text = "".join(self._lines.newline + line for line in rest)
            self._edits.insert(self._lines.end(row.colon), text, depth)

    def _item_lines(self, value: Json, column: int, style: YamlStyle) -> list[str]:
        head, *rest = yaml_writing.item(value, column - 2, style)
        return [head[2:], *rest]

    # Scalars

    def _replace_scalar(self, row: Row, value: Json, depth: int) -> None:
        node = row.value.node
        assert isinstance(node, ScalarNode)
        style = node.style
        if style in ("|", ">") and isinstance(value, str) and self._replace_block_text(row, value, style):
            return
        is_block = isinstance(value, (dict, list)) and not yaml_writing.is_short(value)
        is_lines = isinstance(value, str) and "\n" in value and not style
        if style in ("|", ">") or is_block or is_lines:
            self._replace_with_lines(row, value, depth)
        elif row.end in (row.value.start, row.colon):
            self._edits.insert(row.colon, f" {self._inline(value, row)}")
        else:
            self._edits.replace(row.value.start, row.end, self._inline(value, row))

    def _inline(self, value: Json, row: Row, *, is_json: bool = False) -> str:
        if is_json:
            return yaml_writing.json_like(value)
        style = row.value.node.style if isinstance(row.value.node, ScalarNode) else None
        if isinstance(value, (dict, list)):
            return yaml_writing.flow(value)
        return yaml_writing.scalar(value, style=style, in_flow=self._rows.is_in_flow(row))

    def _replace_with_lines(self, row: Row, value: Json, depth: int) -> None:
        """A scalar gives way to something that takes lines, or lines of text to something that takes none."""
        style = self._rows.style([])
        if isinstance(row.token, int):
            head, *rest = self._item_lines(value, self._lines.column(row.value.start), style)
            self._edits.replace(row.value.start, row.end, head)
        else:
            head, *rest = yaml_writing.after_key(value, self._lines.column(row.start), style)
            self._edits.insert(row.colon, head, depth + 1)
            self._edits.delete(row.colon, row.end)
        if rest:
            text = "".join(self._lines.newline + line for line in rest)
            self._edits.insert(self._lines.end(row.end), text, depth)

    def _replace_block_text(self, row: Row, value: str, style: str) -> bool:
        """Keeps a `|` or `>` block one, where it can hold the text; false when it cannot."""
        header = _BLOCK_HEADER.match(self._text, row.value.start)
        header_end = self._lines.end(row.value.start)
        body = next((line for line in self._text[header_end : row.end].splitlines() if line.strip()), "")
        indent = len(body) - len(body.lstrip(" ")) or self._lines.column(row.start) + self._rows.style([]).step
        lines = yaml_writing.block_text(value, indent, is_folded=style == ">")
        if header is None or lines is None:
            return False
        self._edits.replace(header.start(), header.end(), lines[0])
        self._edits.replace(header_end, row.end, "".join(self._lines.newline + line for line in lines[1:]))
        return True

    # What may be edited

    def _entry(self, path: Path) -> Entry:
        entry = self._layout.entry(path)
        if entry is None:
            raise CannotSplice("the value is not in the file")
        return entry

    def _editable(self, path: Path) -> Entry:
        """The entry at `path`, unless it or what it stands in is shared with another place."""
        for length in range(len(path) + 1):
            entry = self._entry(path[:length])
            if entry.is_merged:
                raise CannotSplice("the value comes from a merge key `<<`, which other places share")
            if entry.is_shared:
                raise CannotSplice("the value is an alias: other places share it")
            found = _PROPERTIES.match(self._text, entry.start)
            if found and self._is_used(found[1]):
                raise CannotSplice(f"the value has the anchor `&{found[1]}`, and aliases of it stand elsewhere")
        return self._entry(path)

    def _is_used(self, anchor: str) -> bool:
        return re.search(rf"\*{re.escape(anchor)}(?![^\s,\[\]{{}}])", self._text) is not None

    def _want_unused_anchors(self, row: Row) -> None:
        for found in re.finditer(r"(?<!\S)&([^\s,\[\]{}]+)", self._text[row.colon : row.end]):
            if self._is_used(found[1]):
                raise CannotSplice(f"the anchor `&{found[1]}` would go, and aliases of it stand elsewhere")

    def _row(self, parent: Entry, token: str | int) -> Row:
        for row in self._rows.of(parent.node):
            if row.token == token:
                return row
        raise CannotSplice("the value is not in the file")

    def _id_key(self, node: SequenceNode) -> str:
        for item in node.value:
            if isinstance(item, MappingNode):
                keys = [key.value for key, _ in item.value if key.value in ("id", "name")]
                return str(keys[0]) if keys else "id"
        return "id"
