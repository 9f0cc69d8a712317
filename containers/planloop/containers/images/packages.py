"""Fetch packages with this machine's apt and npm and check their digests, without installing them."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import anyio
from anyio import to_thread
from anyio.streams.text import TextReceiveStream

from planloop.containers.images.archive import ImageEntry, ImageFailed, ImageTree, symlink_entry
from planloop.schemas import limits
from planloop.schemas.frozen import frozen, remade

TOLD_LINES: Final = 3
ANYWHERE: Final = ("env", "-u", "JAVA_TOOL_OPTIONS", "-u", "JDK_JAVA_OPTIONS", "LC_ALL=C")
"""Environment for programs, so that their output does not depend on the user's settings."""


async def run_for_lines(
    argv: Sequence[str | Path],
    *,
    folder: Path,
    timeout_s: float,
    on_line: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Run a program and return the lines of both outputs; `on_line` gets each line. If cancelled, kills the program.

    Raises ImageFailed with the last lines if it fails or is missing.
    """
    printed: list[str] = []
    try:
        with anyio.fail_after(timeout_s):
            code = await _run([*ANYWHERE, *map(str, argv)], folder, printed, on_line)
    except TimeoutError as error:
        raise ImageFailed(f"{Path(argv[0]).name} did not finish within {timeout_s:.0f} s") from error
    if code:
        raise ImageFailed(f"{Path(argv[0]).name} failed (exit {code}): {'; '.join(_errors(printed))}")
    return printed


async def _run(argv: list[str], folder: Path, printed: list[str], on_line: Callable[[str], None]) -> int:
    async with await anyio.open_process(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            printed += lines
            for line in lines:
                on_line(line)
        printed += [rest] if rest else []
        return await process.wait()


def _errors(printed: list[str]) -> list[str]:
    """The lines that a program marked as errors, else its last lines."""
    marked = [line.strip() for line in printed if line.startswith(("E:", "Error", "dpkg-deb: error"))]
    return (marked or [line.strip() for line in printed if line.strip()])[-TOLD_LINES:]


# Debian packages. apt gets an empty package status, so it lists everything that is needed with URLs, whatever this
# machine has. It writes only to the given folder and works without root. If the machine has no package lists, or
# outdated ones, lists are fetched from the machine's sources.

APT_PROGRAMS: Final = ("apt-get", "dpkg-deb", "dpkg")
OFFERED: Final = re.compile(r"^'\S+' (\S+\.deb) (\d+) (?:(\w+):([0-9a-f]+))?$")
FETCHED: Final = re.compile(r"^Get:\d+ \S+ \S+ \S+ (\S+) \S+ (\S+) ")


@frozen
class DebianPackage:
    """A package to download. `file` is its file name; `hash` and `hashed_by` are the digest that apt reports."""

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
    """apt with separate state in `folder`, which the caller must have locked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_own_lists = False

    async def architecture(self) -> str:
        """The architecture as Debian and engines name it: `amd64`. Raises ImageFailed without apt."""
        missing = [program for program in APT_PROGRAMS if shutil.which(program) is None]
        if missing:
            raise ImageFailed(
                f"stock images need Debian's tools, and this machine has no {missing[0]}",
                "build them on a Debian or Ubuntu machine: `docker save planloop/NAME` there, `docker load` here",
            )
        (said,) = await run_for_lines(["dpkg", "--print-architecture"], folder=Path("/"), timeout_s=limits.APT_ANSWER_S)
        return said

    async def needed(self, names: Iterable[str], patterns: Sequence[str]) -> list[DebianPackage]:
        """Return the packages that `names` need, including themselves, that match a pattern; sorted by name."""
        said = await self._asked("-y", "--print-uris", "install", *names)
        offers = [match for line in said if (match := OFFERED.match(line))]
        packages = [DebianPackage(one[1], int(one[2]), (one[3] or "").lower(), one[4] or "") for one in offers]
        fitting = (package for package in packages if _fits(package.name, patterns))
        return sorted(fitting, key=lambda package: package.file)

    async def fetch(self, packages: Sequence[DebianPackage], folder: Path, on_each: Callable[[str, str], None]) -> None:
        """Download missing packages to `folder`. `on_each` gets each name and version. Raises ImageFailed."""
        wrong = await to_thread.run_sync(_cleared, packages, folder)

        def report(line: str) -> None:
            if match := FETCHED.match(line):
                on_each(match[1], match[2])

        names = [f"{package.name}={package.version}" for package in wrong]
        if names:
            argv = [*self._argv(), "download", *names]
            await run_for_lines(argv, folder=folder, timeout_s=limits.ENGINE_PULL_S, on_line=report)
        if wrong := await to_thread.run_sync(_wrong, wrong, folder):
            raise ImageFailed(f"{wrong[0].file} differs from the digest that apt reports", "run the command again")

    async def _asked(self, *words: str) -> list[str]:
        try:
            return await self._said(*words)
        except ImageFailed:
            if self._has_own_lists:
                raise
        self._has_own_lists = True  # The machine's lists are missing or lack a package.
        await self._said("update")
        return await self._said(*words)

    async def renew(self) -> None:
        """Fetch new package lists, because the machine's lists name packages that no longer exist."""
        if not self._has_own_lists:
            self._has_own_lists = True
            await self._said("update")

    async def _said(self, *words: str) -> list[str]:
        return await run_for_lines([*self._argv(), *words], folder=self._folder, timeout_s=limits.APT_ANSWER_S)

    def _argv(self) -> list[str]:
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        settings: dict[str, object] = {
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "Dir::Cache::pkgcache": "",  # It would use 100 MB on disk to save 0.5 s.
            "Dir::Cache::srcpkgcache": "",
            "Debug::NoLocking": 1,
            "APT::Sandbox::User": "root",  # Otherwise apt reports that its user cannot write here.
            "APT::Install-Recommends": 0,
            "Acquire::ForceHash": "SHA256",
            "Acquire::Retries": 3,
        }
        if self._has_own_lists:
            settings["Dir::State::lists"] = self._folder / "lists"
        return ["apt-get", "-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _wrong(packages: Iterable[DebianPackage], folder: Path) -> list[DebianPackage]:
    """Packages that are missing or damaged in `folder`. apt checks only the size."""
    return [package for package in packages if not _is_package_intact(package, folder / package.file)]


def _cleared(packages: Iterable[DebianPackage], folder: Path) -> list[DebianPackage]:
    """Delete damaged packages from `folder`; return the packages that are missing or were damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    wrong = _wrong(packages, folder)
    for package in wrong:
        (folder / package.file).unlink(missing_ok=True)
    return wrong


def _is_package_intact(package: DebianPackage, file: Path) -> bool:
    if not file.is_file() or file.stat().st_size != package.size_bytes:
        return False
    if not package.hash:
        return True
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, package.hashed_by).hexdigest() == package.hash


# npm packages, each with a version and digest. They are in `/node_modules`, which node searches from every folder. None
# of their code runs while an image is built.

NODE_MODULES: Final = "node_modules"


@frozen
class NpmTarball:
    """An npm package. `sha512` in base64, as in npm. `architecture` as Debian names it; empty: any.

    `bins` are its programs by their names in `usr/bin`.
    """

    name: str
    version: str
    sha512: str
    architecture: str = ""
    bins: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file name that `npm pack` uses."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


def tarballs_for(tarballs: Iterable[NpmTarball], architecture: str) -> list[NpmTarball]:
    """The packages for this architecture."""
    return [tarball for tarball in tarballs if tarball.architecture in ("", architecture)]


async def fetch_tarballs(tarballs: Iterable[NpmTarball], folder: Path, on_each: Callable[[str, str], None]) -> None:
    """Download missing packages to `folder` and check their digests. Raises ImageFailed."""
    for tarball in tarballs:
        if await to_thread.run_sync(_is_tarball_intact, tarball, folder):
            continue
        if shutil.which("npm") is None:
            raise ImageFailed(f"{tarball.name} is an npm package, and this machine has no npm", "run apt install npm")
        on_each(tarball.name, tarball.version)
        argv = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{tarball.name}@{tarball.version}"]
        await run_for_lines(argv, folder=folder, timeout_s=limits.ENGINE_PULL_S)
        if not await to_thread.run_sync(_is_tarball_intact, tarball, folder):
            raise ImageFailed(f"{tarball.file} differs from its expected digest", "run the command again")


def _is_tarball_intact(tarball: NpmTarball, folder: Path) -> bool:
    try:
        with (folder / tarball.file).open("rb") as opened:
            found = hashlib.file_digest(opened, "sha512").digest()
    except FileNotFoundError:
        return False
    return base64.b64encode(found).decode() == tarball.sha512


def tarball_entries(tarball: NpmTarball, tree: ImageTree) -> Iterator[ImageEntry]:
    """The entries of the package at their paths in the image, and links to its programs."""
    root = f"{NODE_MODULES}/{tarball.name}"
    for entry in tree:
        path = entry.path.partition("/")[2]
        if path:
            mode = 0o755 if path in tarball.bins.values() else entry.mode
            yield remade(entry, path=f"{root}/{path}", mode=mode)
    for name, path in tarball.bins.items():
        yield symlink_entry(f"usr/bin/{name}", f"/{root}/{path}")
