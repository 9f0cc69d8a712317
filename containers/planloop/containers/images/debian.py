"""Debian packages by way of the machine's own apt: which ones, fetched and checked, without installing anything.

apt is told that nothing is installed, so that it names all that is needed and where each can be had, whatever this
machine has. It writes into our folder only, and works without root. Where the machine has no lists of packages, or old
ones, lists of our own are fetched from the machine's sources.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from anyio import to_thread

from planloop.containers.images.errors import ImageFailed
from planloop.containers.images.programs import lines_of
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

PROGRAMS: Final = ("apt-get", "dpkg-deb", "dpkg")
OFFERED: Final = re.compile(r"^'\S+' (\S+\.deb) (\d+) (?:(\w+):([0-9a-f]+))?$")
FETCHED: Final = re.compile(r"^Get:\d+ \S+ \S+ \S+ (\S+) \S+ (\S+) ")


@frozen
class Package:
    """`file` is its name as a file, `hash` and `hashed_by` what apt says that its bytes are."""

    file: str
    size_bytes: int
    hashed_by: str
    hash: str

    @property
    def name(self) -> str:
        return self.file.split("_")[0]

    @property
    def version(self) -> str:
        return unquote(self.file.split("_")[1])


class Apt:
    """apt with its own state in `folder`, which the caller holds for itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_own_lists = False

    async def architecture(self) -> str:
        """As Debian and engines call it: `amd64`. Raises ImageFailed where there is no apt."""
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise ImageFailed(
                f"stock images are made of Debian packages, and this machine has no {missing[0]}",
                "make them on a Debian or Ubuntu machine: `docker save planloop/NAME` there, `docker load` here",
            )
        (said,) = await lines_of(["dpkg", "--print-architecture"], folder=Path("/"), timeout_s=limits.APT_ANSWER_S)
        return said

    async def needed(self, names: Iterable[str], patterns: Sequence[str]) -> list[Package]:
        """What `names` need, themselves among it, as far as it fits one of the patterns; in the order of names."""
        said = await self._asked("-y", "--print-uris", "install", *names)
        offers = [match for line in said if (match := OFFERED.match(line))]
        packages = [Package(one[1], int(one[2]), (one[3] or "").lower(), one[4] or "") for one in offers]
        fitting = (package for package in packages if _fits(package.name, patterns))
        return sorted(fitting, key=lambda package: package.file)

    async def fetch(self, packages: Sequence[Package], folder: Path, on_each: Callable[[str, str], None]) -> None:
        """Has them all in `folder`; those there already are kept. `on_each` gets name and version as they come.

        Raises ImageFailed.
        """
        wrong = await to_thread.run_sync(_cleared, packages, folder)

        def tell(line: str) -> None:
            if match := FETCHED.match(line):
                on_each(match[1], match[2])

        names = [f"{package.name}={package.version}" for package in wrong]
        if names:
            argv = [*self._argv(), "download", *names]
            await lines_of(argv, folder=folder, timeout_s=limits.ENGINE_PULL_S, on_line=tell)
        if wrong := await to_thread.run_sync(_wrong, wrong, folder):
            raise ImageFailed(f"{wrong[0].file} did not come as apt said it would", "run it again")

    async def _asked(self, *words: str) -> list[str]:
        try:
            return await self._said(*words)
        except ImageFailed:
            if self._has_own_lists:
                raise
        self._has_own_lists = True  # The machine has no lists, or not of all that is wanted.
        await self._said("update")
        return await self._said(*words)

    async def renew(self) -> None:
        """Fetches lists of its own: those of the machine name packages that are no longer there."""
        if not self._has_own_lists:
            self._has_own_lists = True
            await self._said("update")

    async def _said(self, *words: str) -> list[str]:
        return await lines_of([*self._argv(), *words], folder=self._folder, timeout_s=limits.APT_ANSWER_S)

    def _argv(self) -> list[str]:
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        settings: dict[str, object] = {
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "Dir::Cache::pkgcache": "",  # 100 MB on disk to save half a second.
            "Dir::Cache::srcpkgcache": "",
            "Debug::NoLocking": 1,
            "APT::Sandbox::User": "root",  # Else apt complains that its own user cannot write here.
            "APT::Install-Recommends": 0,
            "Acquire::ForceHash": "SHA256",
            "Acquire::Retries": 3,
        }
        if self._has_own_lists:
            settings["Dir::State::lists"] = self._folder / "lists"
        return ["apt-get", "-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _wrong(packages: Iterable[Package], folder: Path) -> list[Package]:
    """Those that are not in `folder` with all their bytes: apt looks at the size only."""
    return [package for package in packages if not _is_right(package, folder / package.file)]


def _cleared(packages: Iterable[Package], folder: Path) -> list[Package]:
    """The same, out of the way."""
    folder.mkdir(parents=True, exist_ok=True)
    wrong = _wrong(packages, folder)
    for package in wrong:
        (folder / package.file).unlink(missing_ok=True)
    return wrong


def _is_right(package: Package, file: Path) -> bool:
    if not file.is_file() or file.stat().st_size != package.size_bytes:
        return False
    if not package.hash:
        return True
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, package.hashed_by).hexdigest() == package.hash
