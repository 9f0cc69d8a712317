"""A patch: a request to change the plan document, its author, and the verdict of admission."""

from __future__ import annotations

from typing import TypeAlias

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp


@frozen
class Author:
    """Who asks: `human:file`, `human:cli`, `agent:<path>` (`agent:.` is the root's), `controller:<kind>`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def is_human(self) -> bool:
        return self.kind == "human"


HUMAN_FILE = Author("human", "file")
HUMAN_CLI = Author("human", "cli")


def author_from_text(text: str) -> Author:
    """Inverse of `str(author)`."""
    kind, _, name = text.partition(":")
    return Author(kind, name)


def describe_author(text: str) -> str:
    """`agent/frontend`, `human:cli`: who did it, from `str(author)`, as one would name them to a command."""
    kind, _, name = text.partition(":")
    return f"agent/{name}" if kind == "agent" else text


@frozen
class Patch:
    """Operations on the plan document. `base_rev` is the revision the author had read; `reason` is for people.

    `source` is the file's bytes as a blob digest when the author is `human:file`; it becomes the merge base.
    `is_approved` lets a held patch pass the hold it waited for.
    """

    author: Author
    ops: tuple[PatchOp, ...]
    base_rev: int
    reason: str = ""
    source: JsonObject | None = None
    is_approved: bool = False


@frozen
class PatchProblem:
    """One ground for refusal. `rule` is schema, scope, owner, conflict, rights, budget, protect, hook or stale."""

    rule: str
    message: str
    path: tuple[str, ...] = ()
    hint: str = ""
    diagnostic: Diagnostic | None = None


@frozen
class PatchAccepted:
    """The patch is in the log at `rev` (the old revision if it changed nothing). `notes` tell what it overrode."""

    rev: int
    notes: tuple[str, ...] = ()


@frozen
class PatchHeld:
    """The patch waits as the object at `approval`; `why` says for what."""

    rev: int
    approval: str
    why: str


@frozen
class PatchRefused:
    """Nothing changed. All grounds at once; the refusal is recorded at `rev`."""

    rev: int
    faults: tuple[PatchProblem, ...]


PatchVerdict: TypeAlias = PatchAccepted | PatchHeld | PatchRefused
