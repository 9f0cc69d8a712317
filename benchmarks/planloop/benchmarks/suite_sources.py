"""Read the files beside a suite, and report a failure at the line that names the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from planloop.benchmarks.worlds.world_file import read_world
from planloop.compiler.problems import Pointer, Problems
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

# The files beside a suite, as its reader asks for them: a port, and folders on disk.

FILES_MAX: Final = 2000
BYTES_MAX: Final = 16 << 20


class SuiteSources(Protocol):
    """What a suite names is read through this; reading a suite touches no file itself."""

    def read(self, path: str) -> bytes:
        """The bytes of a file beside the suite. Raises OSError."""
        ...

    def tree(self, path: str) -> Mapping[str, bytes]:
        """Every file below a folder beside the suite, by its path in it, sorted. Raises OSError."""
        ...


class FolderSuiteSources:
    """A `SuiteSources` for a suite in `folder`; nothing outside of it is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def read(self, path: str) -> bytes:
        return _bounded(self._inside(path))

    def tree(self, path: str) -> Mapping[str, bytes]:
        top = self._inside(path)
        if not top.is_dir():
            raise NotADirectoryError(f"{path} is not a folder")
        names = sorted(one for one in top.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
        if len(names) > FILES_MAX:
            raise OSError(f"{path} has more than {FILES_MAX} files")
        return {one.relative_to(top).as_posix(): _bounded(self._inside(one)) for one in names}

    def _inside(self, path: str | Path) -> Path:
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder):
            raise PermissionError(f"{path} is outside of the suite's folder")
        return found


def _bounded(path: Path) -> bytes:
    if path.stat().st_size > BYTES_MAX:
        raise OSError(f"{path.name} has more than {BYTES_MAX >> 20} MiB")
    return path.read_bytes()


# Reading the files that a suite names, with a fault at the line that named them when that fails.

NAME_BYTES_MAX: Final = 255
"""Of one part of a path, on the file systems that people have."""


@frozen
class SuiteFileReader:
    """Reads through `sources` and tells `faults`."""

    sources: SuiteSources
    faults: Problems

    def world(self, path: str, to: Pointer) -> JsonObject:
        """The document of the world, or the pool of tools, in a file; an empty map when there is none in it."""
        content = self._content(path, to)
        if content is None:
            return {}
        read = read_world(content, file=path)
        for one in read.diagnostics:
            place = f"{one.span.file}:{one.span.line}: " if one.span is not None else f"{path}: "
            self.faults.add(one.code, f"{place}{one.summary}", one.hint, to=to)
        return read.document or {}

    def texts(self, written: Json, to: Pointer) -> Mapping[str, str]:
        """Texts by path: of a folder when `written` is its name, else of a map, whose values may be `{from: file}`."""
        if isinstance(written, str):
            return self._folder(written, to)
        if not isinstance(written, dict):
            self.faults.add("P0202", "files are a folder, or texts by path", "write `path: text`", to=to)
            return {}
        found: dict[str, str] = {}
        for path, value in written.items():
            if isinstance(value, dict) and set(value) == {"from"}:
                source = str(value["from"])
                found |= self._from(path, source, (*to, path))
            else:
                found[path] = value if isinstance(value, str) else str(value)
        inside = {path: text for path, text in found.items() if self._is_inside(path, to)}
        self._check_nesting(inside, to)
        return inside

    def _from(self, path: str, source: str, to: Pointer) -> Mapping[str, str]:
        try:
            tree = self.sources.tree(source)
        except NotADirectoryError:
            content = self._content(source, to)
            return {} if content is None else self._decoded({path: content}, to)
        except OSError as error:
            self._unreadable(source, error, to)
            return {}
        return self._decoded({f"{path}/{name}": content for name, content in tree.items()}, to)

    def _folder(self, path: str, to: Pointer) -> Mapping[str, str]:
        try:
            return self._decoded(self.sources.tree(path), to)
        except OSError as error:
            self._unreadable(path, error, to)
            return {}

    def _content(self, path: str, to: Pointer) -> bytes | None:
        try:
            return self.sources.read(path)
        except OSError as error:
            self._unreadable(path, error, to)
            return None

    def _decoded(self, files: Mapping[str, bytes], to: Pointer) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name, content in files.items():
            try:
                found[name] = content.decode()
            except UnicodeDecodeError:
                self.faults.add("P0214", f"`{name}` is not text", "files of a suite are UTF-8 texts", to=to)
        return found

    def _unreadable(self, path: str, error: OSError, to: Pointer) -> None:
        why = error.strerror or str(error)
        self.faults.add("P0214", f"`{path}` cannot be read: {why}", "it is looked for beside the suite", to=to)

    def _is_inside(self, path: str, to: Pointer) -> bool:
        parts = path.split("/")
        is_inside = not path.startswith("/") and ".." not in parts
        is_name = parts[-1] not in ("", ".") and "\0" not in path
        if not is_inside:
            self.faults.add("P0218", f"`{path}` is outside of the workspace", "write a path within it", to=to)
        elif not is_name or max(len(part.encode()) for part in parts) > NAME_BYTES_MAX:
            self.faults.add("P0218", f"no file can be called `{path}`", "write a path such as src/a.txt", to=to)
            return False
        return is_inside

    def _check_nesting(self, files: Mapping[str, str], to: Pointer) -> None:
        """Tells of files that others lie below of."""
        if len(files) < 2:
            return
        whole = {PurePosixPath(path): path for path in files}
        for place, path in whole.items():
            if above := next((whole[one] for one in place.parents if one in whole), None):
                hint = "a path is a file or a folder"
                self.faults.add("P0218", f"`{path}` lies below `{above}`, which is a file", hint, to=to)
