"""What a patch by an agent may refer to: files that its author may read itself, after links, before they are opened.

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

from planloop import compiler
from planloop.app.sources import LIBRARY, FolderSources
from planloop.compiler.graph import OutOfReach
from planloop.compiler.naming import leads_out
from planloop.compiler.shelves import out_of_reach
from planloop.compiler.syntax import Form
from planloop.controllers.agent.tools.faults import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.workspace import Workspace, read_file
from planloop.controllers.sandboxes import Astray, ground
from planloop.reconciler.admitting import attaching, ownership
from planloop.reconciler.admitting.language import Visit
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits, patching, pointer
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import Author

FILE: Final = "file:"
TEXTS: Final = frozenset({"goal", "notes"})
"""Fields that are read by people and models only: `file:` in front of one is a word."""

KEYS: Final = frozenset({"models", "mcp", "containers"})
"""Parts of a plan in which `file:path` is a secret. Nobody may take that one for a prompt."""

Pointer = tuple[str, ...]


def check_by(document: JsonObject, visit: Visit, folder: Path) -> compiler.Checked:
    """Checks what the patch of an agent makes of the plan in `folder`, for `Language.check_by`."""
    sources = VisitorSources(folder, visit)
    refused = tuple(sources.faults_of(patching.difference(visit.present.document, document)))
    return compiler.Checked(None, refused) if refused else compiler.check_document(document, sources=sources)


@frozen
class Eyes:
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


class VisitorSources(FolderSources):
    """A `planloop.compiler.graph.Sources` for the patch of an agent."""

    def __init__(self, folder: Path, visit: Visit) -> None:
        super().__init__(folder)
        self._visit = visit
        self._place = folder
        self._own = eyes_of(visit.author, visit.view, folder)

    def faults_of(self, ops: Sequence[patching.Op]) -> Iterator[Diagnostic]:
        """References that the patch puts into the plan and its author may not: judged before any is opened.

        What is in the author's own part of the plan already may be moved and copied there.
        """
        document, path = self._visit.present.document, attaching.reach_of(self._visit.author)
        tokens = pointer.of_task(path)
        node: Json = pointer.get(document, tokens) if pointer.has(document, tokens) else {}
        own = {name for _, name in references(_without_keys(node))}
        for op in ops:
            if op.op == "remove":
                continue
            value = {op.path[-1]: op.value} if op.path else op.value
            for at, name in references(value):
                if name not in own and not self._reaches(name):
                    yield Diagnostic(*out_of_reach(f"{FILE}{name}"), (*op.path[:-1], *at))

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
    def _known(self) -> Mapping[str, Eyes]:
        """The files that the plan named before the patch and whose eyes they are read with; a person's come first."""
        waiting: list[tuple[str, Eyes]] = []
        for at, name in references(_without_keys(self._visit.present.document)):
            stamp = ownership.last_change(self._visit.present.stamps, at)
            if stamp is None or stamp.author.kind != "agent":
                waiting.insert(0, (name, Eyes(None)))
            elif (eyes := eyes_of(stamp.author, self._visit.view, self._place, is_bound_by_rights=False)) is not None:
                waiting.append((name, eyes))
        found: dict[str, Eyes] = {}
        for name, eyes in waiting:  # It grows meanwhile.
            if name not in found and not leads_out(name):
                found[name] = eyes
                waiting += [(below, eyes) for below in self._named_in(name, eyes)]
        return found

    def _named_in(self, name: str, eyes: Eyes) -> Iterator[str]:
        try:
            content = eyes.read(name, self)
        except OSError:
            return
        yield from (below for below in _inside(content, name) if eyes.reaches(below))


def eyes_of(author: Author, view: View, folder: Path, *, is_bound_by_rights: bool = True) -> Eyes | None:
    """What an agent sees of the plan's folder, None when it is there no more.

    What it named while it might counts on when its rights are narrower by now: then it is bound by its workspace alone.
    """
    own, task = view.get(f"agent/{author.name}"), view.get(str(addresses.task(*attaching.reach_of(author))))
    if own is None or task is None:
        return None
    cwd = str(task.spec.get("cwd", "."))
    top = Path(os.path.realpath(folder))
    root = ground(view, cwd, top)
    if isinstance(root, Astray):
        return None
    rights = attaching.rights_of(author, own)
    bounds = (rights.read, rights.deny) if is_bound_by_rights else (None, ())
    return Eyes(Workspace(top, root, read=bounds[0], deny=bounds[1]), cwd)


def references(value: Any) -> Iterator[tuple[Pointer, str]]:
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
        yield from (name for _, name in references(compiler.read_source(content, file=path).value))


def _without_keys(document: Json) -> Json:
    if not isinstance(document, dict):
        return document
    return {name: value for name, value in document.items() if name not in KEYS}
