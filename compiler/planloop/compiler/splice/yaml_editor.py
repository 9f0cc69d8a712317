"""Edit YAML in place: blocks, flow collections, scalars in their quoting style. Comments stay in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from planloop.compiler.source import SourcePath
from planloop.compiler.splice.edits import CannotSplice, CollectionChange, LineIndex, NodeKind, TextEdits
from planloop.compiler.yaml import writer
from planloop.compiler.yaml.nodes import PLAIN, YamlEntry, YamlLayout, node_tag
from planloop.compiler.yaml.reader import YamlTree
from planloop.compiler.yaml.writer import YamlStyle
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen

# The members of a YAML collection as lines see them, and the layout habits of a text, for edits in place.

_UP_TO_DASH: Final = re.compile(r"(?:\s|#[^\n\r]*|[&!]\S+)*")
_COLON: Final = re.compile(r"[ \t]*:")
_LOOKED_AT_MAX: Final = 5_000  # Nodes, to learn the habits of a text.


@frozen
class YamlRow:
    """A member of a collection, from its key or dash to the end of its value.

    `token` is None for a merge key, which has no name of its own. `colon` is where the value may begin: after the
    colon or the dash.
    """

    token: str | int | None
    start: int
    value: YamlEntry
    end: int
    colon: int


class YamlRows:
    """Finds the rows of collections, each once."""

    def __init__(self, text: str, layout: YamlLayout) -> None:
        self._text = text
        self._layout = layout
        self._lines = LineIndex(text, "#")
        self._known: dict[int, list[YamlRow]] = {}
        self._flow_rows: set[int] = set()
        self.ends_with_line = text.endswith(("\n", "\r"))
        self._habits = self._learn()

    def of(self, node: Node) -> list[YamlRow]:
        """The rows of `node` in file order. Raises CannotSplice for spellings that lines cannot tell apart."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = list(self._find(node))
            if isinstance(node, CollectionNode) and node.flow_style:
                self._flow_rows |= {id(row) for row in known}
        return known

    def is_in_flow(self, row: YamlRow) -> bool:
        """Whether the row stands in brackets."""
        return id(row) in self._flow_rows

    def style(self, rows: list[YamlRow]) -> YamlStyle:
        """How to lay out what is new among `rows`: as they do, else as the text does elsewhere."""
        step, dash = self._habits.step, self._habits.dash
        for row in rows:
            value = row.value.node
            if isinstance(value, CollectionNode) and not value.flow_style and value.value and not row.value.is_shared:
                offset = _column(value) - self._lines.column(row.start)
                if isinstance(value, SequenceNode) and isinstance(row.token, str):
                    dash = offset
                elif isinstance(row.token, str):
                    step = offset
        return replace(self._habits, step=step, dash=dash)

    def _find(self, node: Node) -> Iterator[YamlRow]:
        if isinstance(node, SequenceNode):
            yield from self._items(node)
            return
        written = list(self._layout.written(node)) if isinstance(node, MappingNode) else []
        for key, value in zip(written[::2], written[1::2], strict=True):
            colon = _COLON.match(self._text, key.limit)
            lead = self._text[self._lines.start(key.start) : key.start].rstrip(" \t")
            if not isinstance(key.node, ScalarNode) or lead.endswith("?"):
                raise CannotSplice("a key is written with `?`")
            if colon is None:
                raise CannotSplice("a key is written without a colon")
            is_merge = key.node.value == "<<" and node_tag(key.node) is PLAIN
            token = None if is_merge else str(key.node.value)
            yield YamlRow(token, key.start, value, max(self._end(value), colon.end()), colon.end())

    def _items(self, node: SequenceNode) -> Iterator[YamlRow]:
        after: int = node.start_mark.index
        for index, value in enumerate(self._layout.written(node)):
            start = colon = value.start
            if not node.flow_style:
                skipped = _UP_TO_DASH.match(self._text, after)
                start = skipped.end() if skipped else after
                if self._text[start : start + 1] != "-":
                    raise CannotSplice("the dashes of a list are ambiguous")
                colon = start + 1
            after = max(self._end(value), colon)
            yield YamlRow(index, start, value, after, colon)

    def _end(self, value: YamlEntry) -> int:
        """Where the value ends; the blank lines that a block keeps (`|+`) are part of it."""
        node = value.node
        if not isinstance(node, ScalarNode) or node.style not in ("|", ">") or value.is_shared:
            return self._layout.end(value)
        header = self._text[value.start : self._lines.end(value.start)].partition("#")[0]
        return self._lines.trimmed_start(value.limit) if "+" in header else self._layout.end(value)

    def _learn(self) -> YamlStyle:
        step = dash = None
        for key_column, value in islice(_blocks(self._layout.root), _LOOKED_AT_MAX):
            if isinstance(value, MappingNode) and step is None:
                step = _column(value) - key_column
            elif isinstance(value, SequenceNode) and dash is None:
                dash = _column(value) - key_column
            if step is not None and dash is not None:
                break
        step = step if step and step > 0 else 2
        return YamlStyle(step, dash if dash is not None and dash >= 0 else 2, self._lines.newline, self.ends_with_line)


def _blocks(root: Node) -> Iterator[tuple[int, Node]]:
    """Every block collection that is the value of a key, with the column of that key."""
    stack = [root]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, CollectionNode) or node.flow_style:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            stack += reversed(node.value)
            continue
        for key, value in node.value:
            is_below = value.start_mark.index >= key.end_mark.index
            if is_below and isinstance(value, CollectionNode) and not value.flow_style and value.value:
                yield key.start_mark.column, value
        stack += [value for _, value in reversed(node.value)]


def _column(node: CollectionNode) -> int:
    """The column of the first key or dash of a block collection; an anchor before it does not count."""
    if isinstance(node, MappingNode):
        return int(node.value[0][0].start_mark.column)
    return int(node.start_mark.column)


# Edits of YAML collections in brackets: on one line or over several, with commas where they belong.

_COMMA: Final = re.compile(r"[ \t\r\n]*,")
_REST_OF_LINE: Final = re.compile(r"[ \t]*,?[ \t]*(?:[ \t]#[^\n\r]*)?(?=\r|\n|\Z)")


class FlowEdits:
    """Part of `YamlEditor`: what it does between brackets."""

    def __init__(self, text: str, lines: LineIndex, edits: TextEdits) -> None:
        self._text = text
        self._lines = lines
        self._edits = edits

    def is_json(self, rows: list[YamlRow]) -> bool:
        """Whether the keys are all in double quotes: then so is what is added, for those who read it as JSON."""
        return bool(rows) and all(isinstance(row.token, str) and self._text[row.start] == '"' for row in rows)

    def change(self, entry: YamlEntry, rows: list[YamlRow], change: CollectionChange) -> None:
        """Removes and adds members of the collection at `entry`."""
        is_json = self.is_json(rows)
        added = [_flow_pair(key, value, is_json) for key, value in change.added]
        kept = [row for row in rows if row.token not in change.removed]
        if not kept:
            written = [*added, *(self._item(value) for _, value in change.inserted)]
            self._refill(entry, rows, written)
            return
        for row in rows:
            if row.token in change.removed:
                self._remove(row, rows, kept)
        for text in added:
            self._insert_after(kept[-1], text)
        for index, value in change.inserted:
            before = [row for row in kept if isinstance(row.token, int) and row.token < index]
            if before:
                self._insert_after(before[-1], self._item(value))
            else:
                self._edits.insert(kept[0].start, f"{self._item(value)}, ")

    def _item(self, value: Json) -> str:
        return writer.write_flow(value) if isinstance(value, (dict, list)) else writer.write_scalar(value, in_flow=True)

    def _refill(self, entry: YamlEntry, rows: list[YamlRow], written: list[str]) -> None:
        is_map = isinstance(entry.node, MappingNode)
        start, end = self._text.index("{" if is_map else "[", entry.start) + 1, entry.limit - 1
        self._want_no_comments(start, end, rows)
        self._edits.replace(start, end, ", ".join(written))

    def _want_no_comments(self, start: int, end: int, rows: list[YamlRow]) -> None:
        at = start
        for row in rows:
            if start <= row.start < end:
                if "#" in self._text[at : row.start]:
                    break
                at = row.end
        else:
            if "#" not in self._text[at:end]:
                return
        raise CannotSplice("a comment between brackets would be lost")

    def _remove(self, row: YamlRow, rows: list[YamlRow], kept: list[YamlRow]) -> None:
        rest = _REST_OF_LINE.match(self._text, row.end)
        before = [each for each in kept if each.start < row.start]
        if self._lines.begins(row.start) and rest:
            self._edits.delete(self._lines.block_start(row.start), self._lines.next(rest.end()))
            comma = _COMMA.match(self._text, before[-1].end) if before and kept[-1] is before[-1] else None
            if comma and not _COMMA.match(self._text, rows[-1].end):
                self._edits.delete(comma.end() - 1, comma.end())
        elif before:
            self._want_no_comments(before[-1].end, row.end, rows)
            self._edits.delete(before[-1].end, row.end)
        else:
            self._want_no_comments(rows[0].start, kept[0].start, rows)
            self._edits.delete(rows[0].start, kept[0].start)

    def _insert_after(self, row: YamlRow, text: str) -> None:
        comma = _COMMA.match(self._text, row.end)
        rest = _REST_OF_LINE.match(self._text, row.end)
        if not (self._lines.begins(row.start) and rest):
            self._edits.insert(row.end, f", {text}")
            return
        if not comma:
            self._edits.insert(row.end, ",")
        indent = " " * self._lines.column(row.start)
        self._edits.insert(rest.end(), f"{self._lines.newline}{indent}{text}{',' if comma else ''}")


def _flow_pair(key: str, value: Json, is_json: bool) -> str:
    if is_json:
        return f"{writer.quote_double(key)}: {writer.write_json_like(value)}"
    return f"{writer.write_key(key, in_flow=True)}: {writer.write_flow(value)}"


# Edits YAML in place: blocks, brackets, scalars in their quoting style. Comments stay with the lines they describe.
#
# A comment block directly above an item is the item's; so are deeper comments below it. A blank line separates. What
# stands in brackets is `planloop.compiler.splice.yaml_editor`.

_PROPERTIES: Final = re.compile(r"(?:![^\s]*\s+)?&([^\s,\[\]{}]+)")
_BLOCK_HEADER: Final = re.compile(r"[|>][0-9+-]*")
_BLOCK_TEXT: Final = re.compile(r"[|>][0-9+-]*[ \t]*(?:#[^\n\r]*)?(?=\r|\n)")


class YamlEditor:
    """See `planloop.compiler.splice.edits.TextEditor`."""

    def __init__(self, tree: YamlTree) -> None:
        layout = tree.layout
        assert layout is not None, "the file could not be read"
        self._layout = layout
        self._text = tree.text
        self._lines = LineIndex(tree.text, "#")
        self._edits = TextEdits(tree.text)
        self._rows = YamlRows(tree.text, layout)
        self._has_blocks = _BLOCK_TEXT.search(tree.text) is not None
        self._flow = FlowEdits(self._text, self._lines, self._edits)

    def applied(self) -> str:
        return self._edits.applied()

    def kind(self, path: SourcePath) -> NodeKind | None:
        entry = self._layout.entry(path)
        if entry is None:
            return None
        if isinstance(entry.node, CollectionNode):
            return "map" if isinstance(entry.node, MappingNode) else "list"
        return "plain"

    def length(self, path: SourcePath) -> int:
        return len(self._entry(path).node.value)

    def replace(self, path: SourcePath, value: Json) -> None:
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
            self._edits.replace(row.value.start, row.end, writer.write_one_line(value))
        else:
            self._replace_block(row, value, len(path))

    def change(self, path: SourcePath, change: CollectionChange) -> None:
        entry = self._editable(path)
        node = entry.node
        if not isinstance(node, CollectionNode):
            raise CannotSplice("the file has a plain value instead of a map or a list")
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

    def _change_block(self, path: SourcePath, entry: YamlEntry, rows: list[YamlRow], change: CollectionChange) -> None:
        kept = [row for row in rows if row.token not in change.removed]
        style = self._rows.style(rows)
        column = self._lines.column(rows[0].start)
        added = [writer.write_entry(key, value, column, style) for key, value in change.added]
        if not kept:
            items = [writer.write_item(value, column, style) for _, value in change.inserted]
            self._refill(path, entry, rows, added + items)
            return
        self._remove_rows(rows, kept, is_root=not path, removed=change.removed)
        for block in added:
            self._insert_after(kept[-1], rows, block, len(path))
        for index, value in change.inserted:
            block = writer.write_item(value, column, style)
            before = [row for row in kept if isinstance(row.token, int) and row.token < index]
            if before:
                self._insert_after(before[-1], rows, block, len(path))
            else:
                self._insert_before(kept[0], block)

    def _remove_rows(self, rows: list[YamlRow], kept: list[YamlRow], *, is_root: bool, removed: set[str | int]) -> None:
        gone = [row for row in rows if row.token in removed]
        if gone and gone[0] is rows[0] and not self._lines.begins(rows[0].start):
            before = [row for row in gone if row.start < kept[0].start]
            tail = self._tail(before[-1])
            if self._text[tail : kept[0].start].strip():
                # A comment belongs to the next key: both stay where they are, below the dash alone.
                dash_end = len(self._text[: rows[0].start].rstrip(" "))
                self._edits.delete(dash_end, tail)
            else:
                self._edits.delete(rows[0].start, kept[0].start)  # The next key moves up behind the dash.
            gone = [row for row in gone if row not in before]
        for row in gone:
            self._edits.delete(*self._lines_of(row, with_comments=not (is_root and row is rows[0])))

    def _lines_of(self, row: YamlRow, *, with_comments: bool) -> tuple[int, int]:
        """The whole lines of a row, with the comments that are its own."""
        start = self._lines.block_start(row.start) if with_comments else self._lines.start(row.start)
        end = self._tail(row)
        if end == len(self._text) and self._has_blocks:
            return start, end  # The line break above stays: a block text there would lose its last one.
        return self._lines.taken_out(start, end)

    def _tail(self, row: YamlRow) -> int:
        """The end of the last line that belongs to a row: its own, or a deeper comment below it."""
        rest = self._text[row.end : self._lines.end(row.end)]
        if rest.strip() and not re.match(r"[ \t]+#", rest):
            raise CannotSplice("another value is on the same line")
        return self._lines.end_of_deeper_comments(self._lines.end(row.end), self._lines.column(row.start))

    def _insert_after(self, row: YamlRow, rows: list[YamlRow], block: list[str], depth: int) -> None:
        newline, column = self._lines.newline, self._lines.column(rows[0].start)
        gap = newline if self._is_spaced(rows) else ""
        lines = [" " * column + block[0], *block[1:]]
        self._edits.insert(self._tail(row), gap + "".join(newline + line for line in lines), depth)

    def _insert_before(self, row: YamlRow, block: list[str]) -> None:
        if not self._lines.begins(row.start):
            raise CannotSplice("a list begins after another dash")
        column = self._lines.column(row.start)
        lines = [" " * column + block[0], *block[1:]]
        self._edits.insert(self._lines.block_start(row.start), "".join(line + self._lines.newline for line in lines))

    def _is_spaced(self, rows: list[YamlRow]) -> bool:
        """Whether the last two rows have a blank line between them, as the next one then shall."""
        return len(rows) > 1 and self._lines.is_blank_above(self._lines.block_start(rows[-1].start))

    def _refill(self, path: SourcePath, entry: YamlEntry, rows: list[YamlRow], blocks: list[list[str]]) -> None:
        """Puts `blocks` where all rows of a block collection go; brackets when there are none."""
        if not path and not blocks:
            raise CannotSplice("the plan would be empty")
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

    def _replace_block(self, row: YamlRow, value: Json, depth: int) -> None:
        style = self._rows.style([])
        if not self._lines.begins(row.value.start):
            lines = self._item_lines(value, self._lines.column(row.value.start), style)
            self._edits.replace(row.value.start, self._tail(row), self._lines.newline.join(lines))
            return
        self._edits.delete(self._lines.end(row.colon), self._tail(row))
        self._write_after(row, value, depth, style)

    def _write_after(self, row: YamlRow, value: Json, depth: int, style: YamlStyle) -> None:
        """Writes a value behind a colon or dash whose old value is being deleted."""
        head, *rest = writer.write_after_key(value, self._lines.column(row.start), style)
        self._edits.insert(row.colon, head, depth + 1)
        if rest:
            text = "".join(self._lines.newline + line for line in rest)
            self._edits.insert(self._lines.end(row.colon), text, depth)

    def _item_lines(self, value: Json, column: int, style: YamlStyle) -> list[str]:
        head, *rest = writer.write_item(value, column - 2, style)
        return [head[2:], *rest]

    # Scalars

    def _replace_scalar(self, row: YamlRow, value: Json, depth: int) -> None:
        node = row.value.node
        assert isinstance(node, ScalarNode)
        style = node.style
        if style in ("|", ">") and isinstance(value, str) and self._replace_block_text(row, value, style):
            return
        is_block = isinstance(value, (dict, list)) and not writer.is_short(value)
        is_lines = isinstance(value, str) and "\n" in value and not style
        if style in ("|", ">") or is_block or is_lines:
            self._replace_with_lines(row, value, depth)
        elif row.end in (row.value.start, row.colon):
            self._edits.insert(row.colon, f" {self._inline(value, row)}")
        else:
            self._edits.replace(row.value.start, row.end, self._inline(value, row))

    def _inline(self, value: Json, row: YamlRow, *, is_json: bool = False) -> str:
        if is_json:
            return writer.write_json_like(value)
        style = row.value.node.style if isinstance(row.value.node, ScalarNode) else None
        if isinstance(value, (dict, list)):
            return writer.write_flow(value)
        return writer.write_scalar(value, style=style, in_flow=self._rows.is_in_flow(row))

    def _replace_with_lines(self, row: YamlRow, value: Json, depth: int) -> None:
        """A scalar gives way to something that takes lines, or lines of text to something that takes none."""
        style = self._rows.style([])
        if isinstance(row.token, int):
            head, *rest = self._item_lines(value, self._lines.column(row.value.start), style)
            self._edits.replace(row.value.start, row.end, head)
        else:
            head, *rest = writer.write_after_key(value, self._lines.column(row.start), style)
            self._edits.insert(row.colon, head, depth + 1)
            self._edits.delete(row.colon, row.end)
        if rest:
            text = "".join(self._lines.newline + line for line in rest)
            self._edits.insert(self._lines.end(row.end), text, depth)

    def _replace_block_text(self, row: YamlRow, value: str, style: str) -> bool:
        """Keeps a `|` or `>` block one, where it can hold the text; false when it cannot."""
        header = _BLOCK_HEADER.match(self._text, row.value.start)
        header_end = self._lines.end(row.value.start)
        body = next((line for line in self._text[header_end : row.end].splitlines() if line.strip()), "")
        indent = len(body) - len(body.lstrip(" ")) or self._lines.column(row.start) + self._rows.style([]).step
        lines = writer.write_block_text(value, indent, is_folded=style == ">")
        if header is None or lines is None:
            return False
        self._edits.replace(header.start(), header.end(), lines[0])
        self._edits.replace(header_end, row.end, "".join(self._lines.newline + line for line in lines[1:]))
        return True

    # What may be edited

    def _entry(self, path: SourcePath) -> YamlEntry:
        entry = self._layout.entry(path)
        if entry is None:
            raise CannotSplice("the value is not in the file")
        return entry

    def _editable(self, path: SourcePath) -> YamlEntry:
        """The entry at `path`, unless it or what it stands in is shared with another place."""
        for length in range(len(path) + 1):
            entry = self._entry(path[:length])
            if entry.is_merged:
                raise CannotSplice("the value comes from a merge key `<<`, which is used in other places")
            if entry.is_shared:
                raise CannotSplice("the value is an alias, which is used in other places")
            found = _PROPERTIES.match(self._text, entry.start)
            if found and self._is_used(found[1]):
                raise CannotSplice(f"the value has the anchor `&{found[1]}`, which has aliases in other places")
        return self._entry(path)

    def _is_used(self, anchor: str) -> bool:
        return re.search(rf"\*{re.escape(anchor)}(?![^\s,\[\]{{}}])", self._text) is not None

    def _want_unused_anchors(self, row: YamlRow) -> None:
        for found in re.finditer(r"(?<!\S)&([^\s,\[\]{}]+)", self._text[row.colon : row.end]):
            if self._is_used(found[1]):
                raise CannotSplice(f"the anchor `&{found[1]}` would be lost, and it has aliases in other places")

    def _row(self, parent: YamlEntry, token: str | int) -> YamlRow:
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
