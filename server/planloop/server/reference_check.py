"""Check that a patch by an agent refers only to files that its author may read.

A plan names prompts, prototypes, mixins, toolsets and hooks as `file:path`, and what they hold ends up before an agent
or in a refusal. So what a person named is read as ever, what an agent named is read with that agent's eyes, and what
is named inside of a file with the eyes of whoever named the file.
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
"""Fields that are read by people and models only: `file:` in front of one is a word."""

KEYS: Final = frozenset({"models", "mcp", "containers"})
"""Parts of a plan in which `file:path` is a secret. Nobody may take that one for a prompt."""

Pointer = tuple[str, ...]


def check_as_author(document: JsonObject, visit: PatchingAgent, folder: Path) -> graph.CheckedPlan:
    """Checks what the patch of an agent makes of the plan in `folder`, for `PlanLanguage.check_by`."""
    sources = AuthorSources(folder, visit)
    refused = tuple(sources.faults_of(json_patch.diff_values(visit.present.document, document)))
    return graph.CheckedPlan(None, refused) if refused else plan_compiler.check_document(document, sources=sources)


@frozen
class AuthorAccess:
    """Somebody who names files. `space` None: a person, who may name any below the plan's folder."""

    space: Workspace | None
    cwd: str = "."

    def read(self, path: str, sources: FolderSources) -> bytes:
        """The bytes of a file. Raises OSError, of which OutOfReach is one."""
        if self.space is None:
            return FolderSources.read(sources, path)
        try:
            with self.space.spot(self._below(path), "read", "read") as spot:
                return read_file(spot, limits.PLAN_FILE_BYTES_MAX)
        except ToolDenied as fault:
            raise OutOfReach(errno.EACCES, str(fault), path) from fault
        except ToolFailed as fault:
            number = errno.ENOENT if fault.reason == "NotFound" else errno.EINVAL
            words = os.strerror(number) if fault.reason == "NotFound" else str(fault)
            raise OSError(number, words, path) from fault

    def reaches(self, path: str) -> bool:
        """Whether it may be read, if it is there."""
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
        """The path from the workspace on, which may itself lie behind a link. Raises ToolDenied."""
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

    def faults_of(self, ops: Sequence[json_patch.PatchOp]) -> Iterator[Diagnostic]:
        """References that the patch puts into the plan and its author may not: judged before any is opened.

        What is in the author's own part of the plan already may be moved and copied there.
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
        """The bytes behind `lib:name` or a path, if who named it may read them. Raises OSError."""
        if reference.startswith(LIBRARY):
            return super().read(reference)
        if self._own is not None and self._own.reaches(reference):
            content = self._own.read(reference, self)
            named = [name for name in _inside(content, reference) if not self._reaches(name)]
            if not named:
                return content
        # It is not the author's, so it has to be of somebody who named it before.
        eyes = self._known.get(reference)
        if eyes is None:
            raise OutOfReach(errno.EACCES, "its author may not read it", reference)
        content = eyes.read(reference, self)
        if not all(eyes.reaches(name) for name in _inside(content, reference)):
            raise OutOfReach(errno.EACCES, "it names what its author may not read", reference)
        return content

    def _reaches(self, path: str) -> bool:
        return self._own is not None and self._own.reaches(path)

    @cached_property
    def _known(self) -> Mapping[str, AuthorAccess]:
        """The files that the plan named before the patch and whose eyes they are read with; a person's come first."""
        waiting: list[tuple[str, AuthorAccess]] = []
        for at, name in file_references(_without_keys(self._visit.present.document)):
            stamp = field_ownership.last_change(self._visit.present.stamps, at)
            if stamp is None or stamp.author.kind != "agent":
                waiting.insert(0, (name, AuthorAccess(None)))
            elif (
                eyes := access_of_author(stamp.author, self._visit.view, self._place, is_bound_by_rights=False)
            ) is not None:
                waiting.append((name, eyes))
        found: dict[str, AuthorAccess] = {}
        for name, eyes in waiting:  # It grows meanwhile.
            if name not in found and not leaves_folder(name):
                found[name] = eyes
                waiting += [(below, eyes) for below in self._named_in(name, eyes)]
        return found

    def _named_in(self, name: str, eyes: AuthorAccess) -> Iterator[str]:
        try:
            content = eyes.read(name, self)
        except OSError:
            return
        yield from (below for below in _inside(content, name) if eyes.reaches(below))


def access_of_author(
    author: Author, view: View, folder: Path, *, is_bound_by_rights: bool = True
) -> AuthorAccess | None:
    """What an agent sees of the plan's folder, None when it is there no more.

    What it named while it might counts on when its rights are narrower by now: then it is bound by its workspace alone.
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
    """Every path that `value`, a part of a plan or of a file that one names, may name, and where; however spelled."""
    waiting: list[tuple[Pointer, Any]] = [((), value)]
    while waiting:
        at, one = waiting.pop()
        match one:
            case dict():
                for key, inner in one.items():
                    if key.startswith(FILE):
                        yield (*at, key), key.removeprefix(FILE)
                    if key == "use" and isinstance(inner, list):  # Bundles are named without a prefix.
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
    """The paths that a file names itself, if it is one that can."""
    # Reading takes long. `\x66` is an `f` as well.
    if any(sign in content for sign in (FILE.encode(), b"use:", b":use", b"\\")):
        yield from (name for _, name in file_references(read.read_source(content, file=path).value))


def _without_keys(document: Json) -> Json:
    if not isinstance(document, dict):
        return document
    return {name: value for name, value in document.items() if name not in KEYS}
