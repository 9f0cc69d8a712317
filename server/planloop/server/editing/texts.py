"""The live plan as a text to edit: the plan file's own, with what is live written into it, or the canonical one.

The file's text is that of its last apply, which the log has: comments, quotes and order are the person's. The text
compiles to exactly what is live, so the two can stand for each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planloop.app import compiling, pulling
from planloop.app.places import Place
from planloop.compiler import formatting
from planloop.compiler.splicing import NotSpliced
from planloop.compiler.syntax import Format
from planloop.schemas import patching
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

SUFFIXES: Final[dict[Format, str]] = {"yaml": ".plan.yaml", "edn": ".plan.edn"}
NO_FILE: Final = "no plan file was applied here"


@frozen
class LiveText:
    """What to edit. `why` says why it is not the text of the plan file, empty when it is."""

    text: str
    spelling: Format
    why: str


def live_text(path: Path, content: bytes | None, live: JsonObject) -> LiveText:
    """`live` written into `content`, the text of the plan file `path` at its last apply; None when there was none."""
    if content is None:
        return LiveText(formatting.to_yaml(live), "yaml", NO_FILE)
    file = compiling.compiled(path, content)
    spelling = file.compiled.tree.format
    if file.errors:
        why = f"{path.name} does not compile any more: {file.errors[0].summary}"
        return LiveText(formatting.format_document(live, spelling), spelling, why)
    found = pulling.written(file, live)
    if isinstance(found, NotSpliced):
        return LiveText(formatting.format_document(live, spelling), spelling, f"{path.name}: {found.reason}")
    return LiveText(found.content.decode().removeprefix("\ufeff"), spelling, "")


def written_into(path: Path, text: str, wanted: JsonObject) -> str | NotSpliced:
    """`text` with `wanted` written into it, its comments and order as they are."""
    file = compiling.compiled(path, text.encode())
    if file.errors:
        return NotSpliced("the text has faults")
    if not patching.difference(file.document, wanted):
        return text
    found = pulling.written(file, wanted)
    return found if isinstance(found, NotSpliced) else found.content.decode()


def path_of(place: Place, spelling: Format) -> Path:
    """The plan file as the compiler is to call it: the one that was applied, or one that could have been."""
    file = place.file
    is_edn = file is not None and file.suffix in (".edn", ".clj")
    if file is not None and is_edn == (spelling == "edn"):
        return file
    return place.root / f"{place.name}{SUFFIXES[spelling]}"
