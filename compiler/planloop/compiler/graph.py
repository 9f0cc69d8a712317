"""Results of compiling: the canonical document, the wanted objects, the diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from planloop.compiler.source import SourcePath, SourceTree
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import WantedObject


class OutOfReach(OSError):
    """The author of a file reference may not read the file."""


class Sources(Protocol):
    """Reads what a plan refers to. The compiler touches no file itself (law 8)."""

    def read(self, reference: str) -> bytes:
        """The bytes of a file. Raises OSError, of which OutOfReach is one.

        `lib:prototypes/child.yaml` is a path inside the library; anything else is a path relative to the plan file.
        """
        ...

    def names(self, kind: str) -> tuple[str, ...]:
        """What the library holds in a folder, without suffixes, sorted.

        The folders are bundles, mixins, prompts, prototypes and toolsets; unknown ones are empty.
        """
        ...

    def has_file(self, path: str) -> bool:
        """Whether there is a file at a path, relative to the plan file. It is not part of the plan."""
        ...

    def has_program(self, word: str, cwd: str) -> bool:
        """Whether a command in the folder `cwd`, relative to the plan file, that begins with `word` can be run."""
        ...


@frozen
class Graph:
    """The desired state. `objects` holds every wanted object but the plan document itself, in document order.

    `provenance` maps a lowered field (`agent/frontend#model`) to the words that say which prototype, mixin or line it
    came from, for `plan explain --why`.
    """

    name: str
    objects: Mapping[str, WantedObject]
    provenance: Mapping[str, str] = field(default_factory=dict)


@frozen
class CompiledPlan:
    """One text, compiled. `document` and `graph` are None when there are errors (warnings do not count).

    `origin` maps a pointer of the document to the path in the source tree it came from, None for what was derived.
    """

    tree: SourceTree
    document: JsonObject | None
    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    origin: Callable[[tuple[str, ...]], SourcePath | None]


@frozen
class CheckedPlan:
    """A document (for instance after a patch), checked. `graph` and `document` are None when there are errors.

    `document` is the canonical form: what was written in shorthand (`2M`, `spec:`, a list of tasks) is opened in it.
    """

    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    document: JsonObject | None = None
