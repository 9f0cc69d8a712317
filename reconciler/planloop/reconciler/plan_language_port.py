"""The functions of the compiler that admission and diff call, passed in as arguments.

`planloop.owner.build` creates a `PlanLanguage` from the compiler; tests use a small language.
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
    """All wanted objects except the plan document, by address, in document order."""

    @property
    def name(self) -> str: ...

    @property
    def objects(self) -> Mapping[str, WantedObject]: ...


class CheckedDocument(Protocol):
    """A checked document and its diagnostics. `graph` and `document` are None if a diagnostic is an error.

    `document` is the canonical form: a patch may have used shorthand.
    """

    @property
    def graph(self) -> DesiredGraph | None: ...

    @property
    def document(self) -> JsonObject | None: ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


class FileOverride(Protocol):
    """A path that both sides changed; the file's value was used."""

    @property
    def path(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> str: ...


class MergedDocument(Protocol):
    """The merged document, and the live values that the file's values replaced."""

    @property
    def document(self) -> JsonObject: ...

    @property
    def conflicts(self) -> Sequence[FileOverride]: ...


@frozen
class PatchingAgent:
    """An agent that patches the plan. `view` has its rights and its workspace."""

    author: Author
    present: CurrentPlan
    view: View


CheckDocument: TypeAlias = Callable[[JsonObject], CheckedDocument]
CheckDocumentFor: TypeAlias = Callable[[JsonObject, PatchingAgent], CheckedDocument]
MergeDocuments: TypeAlias = Callable[[Json, Json, Json], MergedDocument]
"""Merges (base, file, live)."""

ChangeClassOf: TypeAlias = Callable[[str, str], str]
"""Returns the change class of a lowered field of a kind: hot, tail, prefix, restart, replace, immutable or none."""


@frozen
class PlanLanguage:
    """The functions of the compiler that the gate calls. All pure.

    `check_by` is `check` for a document that an agent changed: it reads no file that the agent may not read. None if
    documents name no files.

    `stops` are the codes of warnings that an accepted document must not have: parts that would never run.
    """

    check: CheckDocument
    merge: MergeDocuments
    change_class: ChangeClassOf
    stops: frozenset[str] = frozenset()
    check_by: CheckDocumentFor | None = None
