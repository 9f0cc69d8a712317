"""Write the live plan back into its file: splice, verify by compiling, replace atomically.

The file may be open in an editor and may be a symlink; its mode stays. What cannot be spliced safely goes to a file
`.new` next to it. This module asks no questions; `plan pull` and `--sync` do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from planloop.client import plan_file
from planloop.client.plan_file import PlanFile
from planloop.compiler import read
from planloop.compiler.splice.write_back import NotSpliced, Spliced, SpliceRequest, splice
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp

SIDE: Final = ".new"


@frozen
class PulledInPlace:
    """The file matches the live plan; `ops` are the changes to it, empty if it matched before."""

    content: bytes
    ops: tuple[PatchOp, ...]


@frozen
class PulledBeside:
    """The file was left alone because of `why`; `path` holds the live plan in canonical form."""

    path: Path
    why: str


@frozen
class PulledMoved:
    """Another program saved the file meanwhile; nothing was written."""


Pulled: TypeAlias = PulledInPlace | PulledBeside | PulledMoved


def pull_plan(file: PlanFile, live: JsonObject, *, before_swap: Callable[[bytes], None] = lambda _: None) -> Pulled:
    """Write `live` to `file`. `before_swap` gets the new bytes first, for a watcher of the file. Raises OSError."""
    ops = tuple(json_patch.diff_values(file.document, live))
    if not ops:
        return PulledInPlace(file.content, ())
    result = splice_document(file, live)
    if isinstance(result, NotSpliced):
        side = Path(f"{file.path}{SIDE}")
        text = read.format_document(live, file.compiled.tree.format)
        replace_file(side, text.encode())
        return PulledBeside(side, result.reason)
    if file.path.read_bytes() != file.content:
        return PulledMoved()
    before_swap(result.content)
    replace_file(file.path, result.content)
    return PulledInPlace(result.content, ops)


def splice_document(file: PlanFile, live: JsonObject) -> Spliced | NotSpliced:
    """The text of `file` with `live` written into it, or why that cannot be done. Touches nothing."""
    return splice(SpliceRequest(file.compiled.tree, file.compiled.origin, file.document, live, _recompiler(file)))


def replace_file(path: Path, content: bytes) -> None:
    """Replace `path` by `content` atomically and durably: a reader sees the old bytes or the new ones.

    A symlink stays and its target is replaced; the mode stays. Raises OSError, leaving the file as it was.
    """
    target = Path(os.path.realpath(path, strict=path.is_symlink()))
    beside = target.with_name(f".{target.name}.planloop-{os.getpid()}")
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    try:
        with beside.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _recompiler(file: PlanFile) -> Callable[[bytes], JsonObject | None]:
    def recompile(content: bytes) -> JsonObject | None:
        again = plan_file.compile_plan(file.path, content, model=file.model)
        return None if again.errors else again.document

    return recompile
