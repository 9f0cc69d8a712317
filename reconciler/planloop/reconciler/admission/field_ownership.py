"""Who last set each path of the plan document, and in which revision. Pure.

A stamp applies to all paths below it without a later stamp, so the first apply needs few stamps, and the tree grows
only with later changes. A stamp is written in the same record as its change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Author, author_from_text

STAMP: Final = "@"
"""The key of a node's own stamp. No field name or id equals it, and keys of children start with `/`."""


@frozen
class FieldStamp:
    """The last change of a path: its author and revision."""

    rev: int
    author: Author


def last_change(tree: JsonObject, path: Sequence[str]) -> FieldStamp | None:
    """Return the newest stamp at `path` or above it; None if the path was never set."""
    return max(_above(tree, path), key=lambda stamp: stamp.rev, default=None)


def changes_since(tree: JsonObject, path: Sequence[str], rev: int) -> list[FieldStamp]:
    """Return stamps later than `rev` at, above and below `path`, newest first: the changes that a new one may
    overwrite."""
    node: JsonObject | None = tree
    for token in path:
        node = None if node is None else node.get("/" + token)
    found = [*_above(tree, path), *(_below(node) if node is not None else ())]
    return sorted({stamp for stamp in found if stamp.rev > rev}, key=lambda stamp: -stamp.rev)


def stamp_patch(tree: JsonObject, ops: Sequence[PatchOp], stamp: FieldStamp) -> JsonObject:
    """Return the merge patch (RFC 7386) that sets `stamp` on each path of `ops` and removes stamps below.

    Removed paths keep no stamp, or the tree would grow with every id that was ever used. The log still has them.
    """
    out: JsonObject = {}
    for op in ops:
        above, node, live = out, out, tree
        for token in op.path:
            above, node, live = node, node.setdefault("/" + token, {}), live.get("/" + token, {})
        if op.op == "remove" and op.path:
            above["/" + op.path[-1]] = None
        else:
            node |= {key: None for key in live if key != STAMP} | {STAMP: [stamp.rev, str(stamp.author)]}
    return out


def _above(tree: JsonObject, path: Sequence[str]) -> Iterator[FieldStamp]:
    node: JsonObject | None = tree
    for token in (None, *path):
        node = node if token is None or node is None else node.get("/" + token)
        if node is None:
            return
        if STAMP in node:
            yield _stamp(node)


def _below(node: JsonObject) -> Iterator[FieldStamp]:
    for key, child in node.items():
        if key == STAMP:
            yield _stamp(node)
        else:
            yield from _below(child)


def _stamp(node: JsonObject) -> FieldStamp:
    rev, author = node[STAMP]
    return FieldStamp(rev, author_from_text(author))
