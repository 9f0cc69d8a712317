"""Write changes of the document back into its source text, and change nothing else.

The document before and after are walked together; what differs becomes edits at the places that the source tree knows,
made by `planloop.compiler.splice.yaml_editor` or `planloop.compiler.splice.edn_editor` in the style of what stands
around. The result is compiled again and must give exactly the document that was wanted. Where that fails, or the place
is shared by an alias, nothing is written and the reason is given: the caller then offers a side file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import TypeAlias

from planloop.compiler.edn.reader import EdnTree
from planloop.compiler.source import SourcePath, SourceTree
from planloop.compiler.splice.edits import CannotSplice, CollectionChange, TextEditor
from planloop.compiler.splice.edn_editor import EdnEditor
from planloop.compiler.splice.yaml_editor import YamlEditor
from planloop.compiler.yaml.reader import YamlTree
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject, canonical_bytes
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import diff_values

Pointer: TypeAlias = tuple[str, ...]
OriginLookup: TypeAlias = Callable[[Pointer], SourcePath | None]
Recompile: TypeAlias = Callable[[bytes], JsonObject | None]


@frozen
class Spliced:
    """The new bytes of the file. Equal to the old ones when the documents were equal."""

    content: bytes


@frozen
class NotSpliced:
    """The file stays as it is; `reason` says why, for people."""

    reason: str


@frozen
class SpliceRequest:
    """What a text says, what it should say, and how to ask what a new text says.

    `origin` is that of `planloop.compiler.graph.CompiledPlan`; `recompile` returns the document in bytes, None if they
    have errors.
    """

    tree: SourceTree
    origin: OriginLookup
    old: JsonObject
    new: JsonObject
    recompile: Recompile


def splice(writing: SpliceRequest) -> Spliced | NotSpliced:
    """The text with the changes from `old` to `new` written into it, proved by compiling it again."""
    tree = writing.tree
    if not isinstance(tree, (YamlTree, EdnTree)):
        return NotSpliced("the file cannot be read")
    editor: TextEditor = YamlEditor(tree) if isinstance(tree, YamlTree) else EdnEditor(tree)
    try:
        _Walk(editor, writing.origin).run(writing.old, writing.new)
        content = tree.source.encoded(editor.applied())
    except CannotSplice as stop:
        return NotSpliced(str(stop))
    back = writing.recompile(content)
    if back is None:
        return NotSpliced("the changed file would not compile")
    wrong = diff_values(back, writing.new)
    if wrong:
        return NotSpliced(
            f"the changed file would have another value at `{json_pointer.render_pointer(wrong[0].path) or '/'}`"
        )
    return Spliced(content)


def _changed_stretches(old: list[Json], new: list[Json]) -> list[tuple[int, int, int, int]]:
    """Where two lists differ: from and to of the old, from and to of the new; as few items as can be."""
    before, after = [canonical_bytes(each) for each in old], [canonical_bytes(each) for each in new]
    codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    kept = sum(old_to - old_from for what, old_from, old_to, _, _ in codes if what == "equal")
    changed = [index for index, (one, other) in enumerate(zip(before, after, strict=False)) if one != other]
    if len(old) == len(new) and len(old) - len(changed) >= kept:
        return [(index, index + 1, index, index + 1) for index in changed]
    return [code[1:] for code in codes if code[0] != "equal"]


class _Walk:
    """Turns the difference of two documents into changes of the source's collections."""

    def __init__(self, editor: TextEditor, origin: OriginLookup) -> None:
        self._editor = editor
        self._origin = origin
        self._changes: dict[SourcePath, CollectionChange] = {}

    def run(self, old: JsonObject, new: JsonObject) -> None:
        self._map((), old, new)
        for path, change in self._changes.items():
            self._editor.change(path, change)

    def _value(self, at: Pointer, old: Json, new: Json) -> None:
        if canonical_bytes(old) == canonical_bytes(new):
            return
        if isinstance(old, dict) and isinstance(new, dict) and self._is_apart(at, old):
            self._map(at, old, new)
        elif isinstance(old, list) and isinstance(new, list) and self._is_apart(at, old):
            self._list(at, old, new)
        else:
            self._editor.replace(self._written(at), new)

    def _is_apart(self, at: Pointer, old: Json) -> bool:
        """Whether the members of the collection at `at` have places of their own in the source."""
        path = self._path(at)
        if isinstance(old, list):
            return self._editor.kind(path) == "list" and self._editor.length(path) == len(old)
        return self._editor.kind(path) != "plain" or any(self._origin((*at, key)) != path for key in old)

    def _map(self, at: Pointer, old: JsonObject, new: JsonObject) -> None:
        for key, value in old.items():
            if key in new:
                self._value((*at, key), value, new[key])
            else:
                self._remove((*at, key), value)
        added = [(key, value) for key, value in new.items() if key not in old]
        if added:
            path = self._container(at, old)
            is_among_fields = at[-1:] == ("tasks",) and self._editor.kind(path) == "form"
            self._change(path).added += [("tasks", dict(added))] if is_among_fields else added

    def _list(self, at: Pointer, old: list[Json], new: list[Json]) -> None:
        path = self._path(at)
        for old_from, old_to, new_from, new_to in _changed_stretches(old, new):
            shared = min(old_to - old_from, new_to - new_from)
            for step in range(shared):
                index = old_from + step
                self._item((*at, str(index)), (*path, index), old[index], new[new_from + step])
            change = self._change(path)
            change.removed |= set(range(old_from + shared, old_to))
            change.inserted += [(old_to, value) for value in new[new_from + shared : new_to]]

    def _item(self, at: Pointer, path: SourcePath, old: Json, new: Json) -> None:
        is_map = isinstance(old, dict) and isinstance(new, dict) and self._editor.kind(path) == "map"
        if is_map and self._origin(at) == path:
            self._map(at, old, new)
        else:
            self._editor.replace(path, new)

    def _remove(self, at: Pointer, old: Json) -> None:
        path = self._written(at)
        # Children of an EDN form have no collection of their own: they go one by one.
        if isinstance(old, dict) and old and at[-1] == "tasks" and self._editor.kind(path[:-1]) == "form":
            for key in old:
                self._change(path[:-1]).removed.add(self._written((*at, key))[-1])
            return
        self._change(path[:-1]).removed.add(path[-1])

    def _container(self, at: Pointer, old: JsonObject) -> SourcePath:
        """The collection of the source that new members of the map at `at` go into."""
        own = self._path(at)
        places = [place for key in old if (place := self._origin((*at, key)))]
        if self._editor.kind(own) == "map":
            places = [place for place in places if place != own]  # Derived members have the same position.
        # Members may be scattered, as over the forms of an EDN file: a new one joins the most.
        for parent, _ in Counter(place[:-1] for place in places).most_common():
            if self._editor.kind(parent) != "plain":
                return parent
        return own

    def _change(self, path: SourcePath) -> CollectionChange:
        return self._changes.setdefault(path, CollectionChange())

    def _path(self, at: Pointer) -> SourcePath:
        path = self._origin(at)
        if path is None:
            raise CannotSplice(f"`{json_pointer.render_pointer(at)}` is not in the file")
        return path

    def _written(self, at: Pointer) -> SourcePath:
        """The path of what the file itself says at `at`, and not of something around it."""
        path = self._path(at)
        if not path or (self._path(at[:-1]) == path and self._editor.kind(path) == "map"):
            raise CannotSplice(f"`{json_pointer.render_pointer(at)}` has no place of its own in the file")
        return path
