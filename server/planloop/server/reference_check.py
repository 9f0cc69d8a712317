"""Check that a patch by an agent refers only to files that its author may read.

A plan refers to prompts, prototypes, mixins, toolsets and hooks as `file:path`, and their content may be shown to an
agent or in an error. Therefore a file that an agent refers to is read with that agent's rights. References inside a
file are read with the rights of the author who refers to that file. An operator may refer to any file of the plan.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final

from planloop.client.plan_sources import LIBRARY, FolderSources
from planloop.compiler import graph, plan_compiler, read
from planloop.compiler.graph import OutOfReach
from planloop.compiler.names import leaves_folder
from planloop.compiler.resolve.symbols import out_of_reach_error
from planloop.compiler.source import Form
from planloop.controllers.agent.tools.errors import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.workspace import Workspace, read_file
from planloop.controllers.shared.workspace import WorkspaceFault, resolve_workspace
from planloop.reconciler.admission import field_ownership, hook_policy
from planloop.reconciler.plan_language_port import PatchingAgent
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_patch, json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import Author

FILE: Final = "file:"
TEXTS: Final = frozenset({"goal", "notes"})
"""Fields with text for people and models, in which `file:` has no meaning."""

KEYS: Final = frozenset({"models", "mcp", "containers"})
"""Parts of a plan in which `file:path` is a secret, which must not be read as a prompt."""

Pointer = tuple[str, ...]


def check_as_author(document: JsonObject, visit: PatchingAgent, folder: Path) -> graph.CheckedPlan:
    """Check the plan in `folder` after the patch of an agent, for `PlanLanguage.check_by`."""
    sources = AuthorSources(folder, visit)
    refused = tuple(sources.errors_of(json_patch.diff_values(visit.present.document, document)))
    return graph.CheckedPlan(None, refused) if refused else plan_compiler.check_document(document, sources=sources)


@frozen
class AuthorAccess:
    """The files that an author may refer to. For an operator (no `space`), these are all files of the plan's folder."""

    space: Workspace | None
    cwd: str = "."

    def read(self, path: str, sources: FolderSources) -> bytes:
        """Return the content of a file. Raises OSError, or its subclass OutOfReach."""
        if self.space is None:
            return FolderSources.read(sources, path)
        try:
            with self.space.spot(self._below(path), "read", "read") as spot:
                return read_file(spot, limits.PLAN_FILE_BYTES_MAX)
        except ToolDenied as error:
            raise OutOfReach(errno.EACCES, str(error), path) from error
        except ToolFailed as error:
            number = errno.ENOENT if error.reason == "NotFound" else errno.EINVAL
            words = os.strerror(number) if error.reason == "NotFound" else str(error)
            raise OSError(number, words, path) from error

    def reaches(self, path: str) -> bool:
        """Return whether the author may read the file, if it exists."""
        if self.space is None:
            return True
        try:
            with self.space.spot(self._below(path), "read", "read"):
                return True
        except ToolDenied:
            return False
        except ToolFailed:
            return True

    def _below(self, path: str) -> str:
        """Return the path relative to the workspace, whose own path may contain links. Raises ToolDenied."""
        try:
            return str(PurePosixPath(path).relative_to(self.cwd))
        except ValueError:
            raise ToolDenied(f"`{path}` is outside the workspace `{self.cwd}`") from None


class AuthorSources(FolderSources):
    """A `planloop.compiler.graph.Sources` for the patch of an agent."""

    def __init__(self, folder: Path, visit: PatchingAgent) -> None:
        super().__init__(folder)
        self._visit = visit
        self._place = folder
        self._own = access_of_author(visit.author, visit.view, folder)

    def errors_of(self, ops: Sequence[json_patch.PatchOp]) -> Iterator[Diagnostic]:
        """Yield an error for each reference in the patch that its author may not make. Opens no file.

        The author may move and copy references that are already in its part of the plan.
        """
        document, path = self._visit.present.document, hook_policy.author_reach(self._visit.author)
        tokens = json_pointer.task_pointer(path)
        node: Json = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
        own = {name for _, name in file_references(_without_keys(node))}
        for op in ops:
            if op.op == "remove":
                continue
            value = {op.path[-1]: op.value} if op.path else op.value
            for at, name in file_references(value):
                if name not in own and not self._reaches(name):
                    yield Diagnostic(*out_of_reach_error(f"{FILE}{name}"), (*op.path[:-1], *at))

    def read(self, reference: str) -> bytes:
        """Return the content of `lib:name` or of a path, if the author of the reference may read it. Raises OSError."""
        if reference.startswith(LIBRARY):
            return super().read(reference)
        if self._own is not None and self._own.reaches(reference):
            content = self._own.read(reference, self)
            named = [name for name in _inside(content, reference) if not self._reaches(name)]
            if not named:
                return content
        # The author may not read it, so the reference must be from an earlier author who may.
        access = self._known.get(reference)
        if access is None:
            raise OutOfReach(errno.EACCES, "its author may not read it", reference)
        content = access.read(reference, self)
        if not all(access.reaches(name) for name in _inside(content, reference)):
            raise OutOfReach(errno.EACCES, "it refers to a file that its author may not read", reference)
        return content

    def _reaches(self, path: str) -> bool:
        return self._own is not None and self._own.reaches(path)

    @cached_property
    def _known(self) -> Mapping[str, AuthorAccess]:
        """The files that the plan referred to before the patch, with the access to read each. Operators' come first."""
        waiting: list[tuple[str, AuthorAccess]] = []
        for at, name in file_references(_without_keys(self._visit.present.document)):
            stamp = field_ownership.last_change(self._visit.present.stamps, at)
            if stamp is None or stamp.author.kind != "agent":
                waiting.insert(0, (name, AuthorAccess(None)))
            elif (
                access := access_of_author(stamp.author, self._visit.view, self._place, is_bound_by_rights=False)
            ) is not None:
                waiting.append((name, access))
        found: dict[str, AuthorAccess] = {}
        for name, access in waiting:  # The loop appends to `waiting`.
            if name not in found and not leaves_folder(name):
                found[name] = access
                waiting += [(below, access) for below in self._named_in(name, access)]
        return found

    def _named_in(self, name: str, access: AuthorAccess) -> Iterator[str]:
        try:
            content = access.read(name, self)
        except OSError:
            return
        yield from (below for below in _inside(content, name) if access.reaches(below))


def access_of_author(
    author: Author, view: View, folder: Path, *, is_bound_by_rights: bool = True
) -> AuthorAccess | None:
    """Return an agent's access to the plan's folder; None if the agent no longer exists.

    References stay valid after the agent's rights are narrowed. With `is_bound_by_rights` false, only the agent's
    workspace limits its access.
    """
    own, task = (
        view.get(f"agent/{author.name}"),
        view.get(str(addresses.task_address(*hook_policy.author_reach(author)))),
    )
    if own is None or task is None:
        return None
    cwd = str(task.spec.get("cwd", "."))
    top = Path(os.path.realpath(folder))
    root = resolve_workspace(view, cwd, top)
    if isinstance(root, WorkspaceFault):
        return None
    rights = hook_policy.author_rights(author, own)
    bounds = (rights.read, rights.deny) if is_bound_by_rights else (None, ())
    return AuthorAccess(Workspace(top, root, read=bounds[0], deny=bounds[1]), cwd)


def file_references(value: Any) -> Iterator[tuple[Pointer, str]]:
    """Yield every reference in `value`, a part of a plan or of a file, with its place. Covers all spellings."""
    waiting: list[tuple[Pointer, Any]] = [((), value)]
    while waiting:
        at, one = waiting.pop()
        match one:
            case dict():
                for key, inner in one.items():
                    if key.startswith(FILE):
                        yield (*at, key), key.removeprefix(FILE)
                    if key == "use" and isinstance(inner, list):  # References to bundles have no prefix.
                        yield from (((*at, key), str(name)) for name in inner if ":" not in str(name))
                    if not (isinstance(inner, str) and key.rpartition("/")[2] in TEXTS):
                        waiting.append(((*at, key), inner))
            case list() | tuple():
                waiting += [((*at, str(index)), inner) for index, inner in enumerate(one)]
            case Form(items=items):
                waiting.append((at, items))
            case str() if one.startswith(FILE):
                yield at, one.removeprefix(FILE)


def _inside(content: bytes, path: str) -> Iterator[str]:
    """Yield the references in a file."""
    # Parsing is slow, so skip files that cannot have references. A backslash may be an escape: `\x66` is `f`.
    if any(sign in content for sign in (FILE.encode(), b"use:", b":use", b"\\")):
        yield from (name for _, name in file_references(read.read_source(content, file=path).value))


def _without_keys(document: Json) -> Json:
    if not isinstance(document, dict):
        return document
    return {name: value for name, value in document.items() if name not in KEYS}
