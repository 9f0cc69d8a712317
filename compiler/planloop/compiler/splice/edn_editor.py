"""Edit EDN in place: maps, vectors, lists, sets and forms. Comments stay with what they describe.

A comment block directly above an entry is the entry's. New keys are spelled like those around them: keyword or string,
with the namespace that all of them share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

from planloop.compiler.edn import tokens, writer
from planloop.compiler.edn.reader import EdnTree, key_text
from planloop.compiler.edn.tokens import EdnNode
from planloop.compiler.source import Keyword, SourcePath, SourceValue, Symbol
from planloop.compiler.splice.edits import CannotSplice, CollectionChange, LineIndex, NodeKind, TextEdits
from planloop.compiler.yaml.scalars import OutOfRange
from planloop.schemas.canonical_json import Json
from planloop.schemas.frozen import frozen

_REST_OF_LINE: Final = re.compile(r"[ \t,]*(?:;[^\n\r]*)?(?=\r|\n|\Z)")
_COMMENT_FOLLOWS: Final = re.compile(r"[ \t,]*;")
_NEXT_LINE: Final = re.compile(r"[ \t,]*(?:;[^\n\r]*)?(?:\r\n|\r|\n)[ \t]*")
_NAME: Final = re.compile(r"[A-Za-z*!_?$%&=<>.+-][\w.*+!?$%&=<>:#-]*(?:/[\w.*+!?$%&=<>:#-]+)?", re.ASCII)
_TASK_HEADS: Final = ("task", "plan")

_Write: TypeAlias = Callable[[int], list[str]]


@frozen
class EdnRow:
    """A member of a collection: from its key, if it has one, to the end of its value."""

    token: str | int
    start: int
    value: EdnNode
    key: EdnNode | None

    @property
    def end(self) -> int:
        return self.value.end


class EdnEditor:
    """See `planloop.compiler.splice.edits.TextEditor`."""

    def __init__(self, tree: EdnTree) -> None:
        layout = tree.layout
        assert layout is not None, "the file could not be read"
        self._layout = layout
        self._text = tree.text
        self._lines = LineIndex(tree.text, ";")
        self._edits = TextEdits(tree.text)

    def applied(self) -> str:
        return self._edits.applied()

    def kind(self, path: SourcePath) -> NodeKind | None:
        found = self._layout.find(path)
        if found is None:
            return None
        match found[1].kind:
            case "map":
                return "map"
            case "list":
                return "form"
            case "vector" | "set" | "top":
                return "list"
            case _:
                return "plain"

    def length(self, path: SourcePath) -> int:
        return len(self._node(path).items)

    def replace(self, path: SourcePath, value: Json) -> None:
        node = self._node(path)
        if not path:
            raise CannotSplice("the whole plan would be replaced")
        column = self._lines.column(node.start)
        if isinstance(value, str):
            written = self._text_like(node, value)
        elif form := self._check_form(node, value):
            written = form
        else:
            written = self._lines.newline.join(writer.write_lines(value, column))
        self._edits.replace(node.start, node.end, written)

    def change(self, path: SourcePath, change: CollectionChange) -> None:
        node = self._node(path)
        if node.kind not in ("map", "vector", "list", "set"):
            raise CannotSplice("the file has a plain value instead of a collection")
        rows = self._rows(node)
        kept = [row for row in rows if row.token not in change.removed]
        if rows and not kept and not self._has_comments(node, rows):
            self._edits.delete(self._inside(node), node.end - 1)
        else:
            for row in rows:
                if row.token in change.removed:
                    self._remove(row, rows, kept)
        if not kept:
            self._fill(node, change, len(path))
            return
        for key, value in change.added:
            self._add(node, kept, key, value, len(path))
        for index, value in change.inserted:
            before = [row for row in kept if isinstance(row.token, int) and row.token < index]
            write = self._item_writer(kept, value)
            self._insert(node, kept, before[-1] if before else None, write, len(path))

    # Adding

    def _item_writer(self, kept: list[EdnRow], value: Json) -> _Write:
        """Checks among checks written as forms are written as forms too: `(sh "npm test")`."""
        is_simple = isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), str)
        if is_simple and all(row.value.kind == "list" for row in kept):
            ((head, argument),) = value.items()
            return lambda _column: [f"({head} {writer.write_string(argument)})"]
        return partial(writer.write_lines, value)

    def _fill(self, node: EdnNode, change: CollectionChange, depth: int) -> None:
        """Writes all that goes into a collection with nothing left in it."""
        at = self._inside(node)
        column = self._lines.column(at)
        if node.kind == "map":
            blocks = [writer.write_entry(writer.write_key(key), value, column) for key, value in change.added]
        else:
            blocks = [writer.write_map({"id": key, **value}, column) for key, value in change.added]
            blocks += [writer.write_lines(value, column) for _, value in change.inserted]
        is_broken = sum(len(block[0]) + 1 for block in blocks) + column > writer.COLUMNS_MAX
        is_broken = is_broken or any(len(block) > 1 for block in blocks)
        lines = writer.join_blocks(blocks, column)
        self._edits.insert(at, (self._lines.newline if is_broken else " ").join(lines), depth)

    def _add(self, node: EdnNode, kept: list[EdnRow], key: str, value: Json, depth: int) -> None:
        last = kept[-1] if kept else None
        if node.kind == "map":
            self._insert(node, kept, last, partial(writer.write_entry, self._key(node, kept, key), value), depth)
        elif node.kind == "list":
            self._add_to_form(node, kept, key, value, depth)
        elif any(row.value.kind == "list" for row in kept):
            self._insert(node, kept, last, partial(writer.write_task_form, key, value), depth)
        else:
            id_key, namespace = self._id_key(kept)
            item = {id_key: key, **value}
            self._insert(node, kept, last, partial(writer.write_map, item, namespace=namespace), depth)

    def _add_to_form(self, node: EdnNode, kept: list[EdnRow], key: str, value: Json, depth: int) -> None:
        head = self._text[node.items[0].start : node.items[0].end] if node.items else ""
        if head.rpartition("/")[2] not in _TASK_HEADS:
            raise CannotSplice(f"`({head} …)` takes no more fields")
        fields = [row for row in kept if row.value.kind != "list"]
        children = {key: value}
        if key == "tasks" and isinstance(value, dict):
            children, fields = value, kept  # Children come after everything.
        is_child = key == "tasks"
        for name, each in children.items():
            write = (
                partial(writer.write_task_form, name, each)
                if is_child
                else partial(writer.write_entry, f":{name}", each)
            )
            rows = kept if is_child else fields
            self._insert(node, kept, rows[-1] if rows else _head_row(node), write, depth)

    def _key(self, node: EdnNode, kept: list[EdnRow], key: str) -> str:
        keys = [row.key for row in kept if row.key is not None]
        if keys and all(each.kind == "string" for each in keys):
            return writer.write_string(key)
        return writer.write_key(key, "" if node.namespace else self._shared_namespace(keys))

    def _shared_namespace(self, keys: list[EdnNode]) -> str:
        written = [self._text[key.start : key.end] for key in keys]
        spaces = {text[1:].rpartition("/")[0] for text in written if text.startswith(":")}
        return spaces.pop() if len(spaces) == 1 else ""

    def _id_key(self, kept: list[EdnRow]) -> tuple[str, str]:
        """How items of a list carry their id: the name of the key and its namespace."""
        for row in kept:
            keys = row.value.items[::2] if row.value.kind == "map" else []
            for key in keys:
                name = (key_text(self._text, key, row.value.namespace) or "").rpartition("/")[2]
                if name in ("id", "name"):
                    return name, self._shared_namespace([key])
        return "id", ""

    def _insert(self, node: EdnNode, kept: list[EdnRow], after: EdnRow | None, write: _Write, depth: int) -> None:
        column = self._column(node, kept)
        written = write(column)
        is_broken = self._is_broken(node, kept) or len(written) > 1
        indent = self._lines.newline + " " * column
        text = self._lines.newline.join(written)
        if after is None:
            self._edits.insert(kept[0].start, text + (indent if is_broken else " "), depth)
            return
        if _COMMENT_FOLLOWS.match(self._text, after.end):
            gap = self._lines.newline if self._is_spaced(kept) else ""
            self._edits.insert(self._lines.end(after.end), gap + indent + text, depth)
        elif is_broken:
            gap = self._lines.newline if self._is_spaced(kept) else ""
            self._edits.insert(after.end, gap + indent + text, depth)
        else:
            self._edits.insert(after.end, (", " if self._has_commas(kept) else " ") + text, depth)

    def _inside(self, node: EdnNode) -> int:
        return node.start + (2 if node.kind == "set" else len(node.namespace) + 3 if node.namespace else 1)

    def _column(self, node: EdnNode, kept: list[EdnRow]) -> int:
        if node.kind != "list":
            return self._lines.column(kept[0].start)
        broken = [row for row in kept if self._lines.begins(row.start)]
        return self._lines.column((broken[-1] if broken else node).start) + (0 if broken else 2)

    def _is_broken(self, node: EdnNode, kept: list[EdnRow]) -> bool:
        if len(kept) > 1:
            return any(self._lines.begins(row.start) for row in kept[1:])
        return self._lines.start(node.start) != self._lines.start(node.end)

    def _is_spaced(self, rows: list[EdnRow]) -> bool:
        is_own_line = len(rows) > 1 and self._lines.begins(rows[-1].start)
        return is_own_line and self._lines.is_blank_above(self._lines.block_start(rows[-1].start))

    def _has_commas(self, rows: list[EdnRow]) -> bool:
        return len(rows) > 1 and "," in self._text[rows[-2].end : rows[-1].start]

    # Removing

    def _has_comments(self, node: EdnNode, rows: list[EdnRow]) -> bool:
        """Whether comments stand in a collection that belong to none of its rows."""
        ends, starts = [self._inside(node)], []
        for row in rows:
            rest = _REST_OF_LINE.match(self._text, row.end)
            ends.append(rest.end() if rest else row.end)
            starts.append(self._lines.block_start(row.start) if self._lines.begins(row.start) else row.start)
        starts.append(node.end - 1)
        return any(self._text[end:start].strip(" \t\r\n,") for end, start in zip(ends, starts, strict=True))

    def _remove(self, row: EdnRow, rows: list[EdnRow], kept: list[EdnRow]) -> None:
        index = rows.index(row)
        before = rows[index - 1].end if index else None
        after = rows[index + 1].start if index + 1 < len(rows) else None
        rest = _REST_OF_LINE.match(self._text, row.end)
        above = [each.end for each in kept if each.start < row.start][-1:]
        is_below_comment = bool(above) and _COMMENT_FOLLOWS.match(self._text, above[0]) is not None
        has_line_mate = before is not None and before >= self._lines.start(row.start)
        if self._lines.begins(row.start):
            start = self._lines.block_start(row.start)
            if rest:
                self._edits.delete(*self._lines.taken_out(start, rest.end()))
            elif after is not None:
                self._edits.delete(row.start, after)
            elif before is not None and not self._text[before:start].strip(" \t\r\n,") and not is_below_comment:
                self._edits.delete(before, row.end)
            else:
                # The closing bracket stays on its own line, or a comment above would swallow it.
                self._edits.delete(start + self._lines.column(row.start), row.end)
        elif after is not None and (next_line := _NEXT_LINE.match(self._text, row.end)) and not has_line_mate:
            self._edits.delete(row.start, next_line.end())  # The next entry moves up behind the bracket.
        elif after is not None and not next_line:
            self._edits.delete(row.start, after)
        elif before is not None and not self._text[before : row.start].strip(" \t,"):
            self._edits.delete(before, row.end)
        else:
            self._edits.delete(row.start, row.end)

    # Looking

    def _node(self, path: SourcePath) -> EdnNode:
        found = self._layout.find(path)
        if found is None:
            raise CannotSplice("the value is not in the file")
        return found[1]

    def _rows(self, node: EdnNode) -> list[EdnRow]:
        if node.kind == "map":
            entries = self._layout.entries(node)
            return [EdnRow(token, key.start, value, key) for token, (key, value) in entries.items() if key is not None]
        if node.kind != "list":
            return [EdnRow(index, item.start, item, None) for index, item in enumerate(node.items)]
        return list(self._form_rows(node))

    def _form_rows(self, node: EdnNode) -> Iterator[EdnRow]:
        items = node.items
        index = 1
        while index < len(items):
            key = items[index]
            if self._text[key.start] == ":" and index + 1 < len(items):
                index += 1
                yield EdnRow(index, key.start, items[index], key)
            else:
                yield EdnRow(index, key.start, key, None)
            index += 1

    def _text_like(self, node: EdnNode, value: str) -> str:
        """`value` spelled as the node is, keyword, symbol or string, where it can be."""
        token = self._text[node.start : node.end]
        if node.kind == "atom" and _NAME.fullmatch(value):
            bare = f":{value}" if token[0] == ":" else value
            meant = _atom(bare)
            if isinstance(meant, (Keyword, Symbol)) and type(meant) is type(_atom(token)):
                return bare
        if node.kind == "string" and "\n" in token and "\r" not in value:
            return '"' + "\n".join(writer.write_string(line)[1:-1] for line in value.split("\n")) + '"'
        return writer.write_string(value)

    def _check_form(self, node: EdnNode, value: Json) -> str | None:
        """`(sh "…")` for `{sh: …}` where a form with that head stood."""
        if node.kind != "list" or not isinstance(value, dict) or len(value) != 1 or not node.items:
            return None
        (key, argument), *_ = value.items()
        head = self._text[node.items[0].start : node.items[0].end]
        return f"({head} {writer.write_inline(argument)})" if head == key and isinstance(argument, str) else None


def _atom(token: str) -> SourceValue:
    """Return the value of a bare token; text if it is not a token."""
    try:
        return tokens.atom_value(token)
    except (tokens.BadAtom, OutOfRange):
        return token


def _head_row(node: EdnNode) -> EdnRow:
    return EdnRow(0, node.items[0].start, node.items[0], None)
