"""The functions of the compiler that admission and diff call, passed in as arguments.

`planloop.owner.build` fills a `PlanLanguage` from the compiler; tests fill it with a small language of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import Author
from planloop.schemas.resource import WantedObject


class DesiredGraph(Protocol):
    """Every wanted object but the plan document itself, by address, in document order."""

    @property
    def name(self) -> str: ...

    @property
    def objects(self) -> Mapping[str, WantedObject]: ...


class CheckedDocument(Protocol):
    """A document with its faults; `graph` and `document` are None when one of them is an error.

    `document` is the canonical form of what was checked: a patch may have written parts of it in shorthand.
    """

    @property
    def graph(self) -> DesiredGraph | None: ...

    @property
    def document(self) -> JsonObject | None: ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


class FileOverride(Protocol):
    """One place where both sides had changed the same thing; the file's side was taken."""

    @property
    def path(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> str: ...


class MergedDocument(Protocol):
    """Both sides in one document, and what the file's side took from the live one."""

    @property
    def document(self) -> JsonObject: ...

    @property
    def conflicts(self) -> Sequence[FileOverride]: ...


@frozen
class PatchingAgent:
    """An agent that patches the plan, and what it finds: `view` knows what it may do and where it works."""

    author: Author
    present: CurrentPlan
    view: View


CheckDocument: TypeAlias = Callable[[JsonObject], CheckedDocument]
CheckDocumentFor: TypeAlias = Callable[[JsonObject, PatchingAgent], CheckedDocument]
MergeDocuments: TypeAlias = Callable[[Json, Json, Json], MergedDocument]
"""Of (base, file, live), in that order."""

ChangeClassOf: TypeAlias = Callable[[str, str], str]
"""Of a kind and a lowered field: hot, tail, prefix, restart, replace, immutable or none."""


@frozen
class PlanLanguage:
    """The functions of the compiler that the gate calls. All pure.

    `check_by` is `check` for what an agent made of the document: it opens no file that the agent may not read. None
    where documents name no files.

    `stops` are the codes of warnings that a preview may have and an accepted document may not: what would never run.
    """

    check: CheckDocument
    merge: MergeDocuments
    change_class: ChangeClassOf
    stops: frozenset[str] = frozenset()
    check_by: CheckDocumentFor | None = None
