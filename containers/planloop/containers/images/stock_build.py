"""Build stock images: fetch packages, write the archive, load it into the engine.

All in one folder, held for the time: what was fetched stays until the archive is there, so that making goes on where it
was cut off, and the archive stays, so that an engine that lost its images gets them back at once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

from anyio import to_thread

from planloop.containers.engine.engine import ContainerEngine
from planloop.containers.images import packages as images_packages
from planloop.containers.images.archive import ImageSettings, write_archive
from planloop.containers.images.folder_lock import hold_folder
from planloop.containers.images.image_tree import ImageEntry, ImageFailed, read_folder_tree
from planloop.containers.images.packages import Apt, DebianPackage, run_for_lines
from planloop.containers.images.rootfs import read_tar_tree
from planloop.containers.images.stock import JAVA, PREFIX, USER, StockImage
from planloop.containers.images.stock_contents import choose_files, unpack_packages
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen

MAKERS: Final = ("archive", "image_tree", "packages", "rootfs", "stock", "stock_build", "stock_contents")
"""The modules here by which packages become an image: with another text they may make another one of the same."""
JDK: Final = "openjdk-"
OnProgress = Callable[[str, str], None]
"""Told of each step, and now and then how far it is."""


@frozen
class BuiltImage:
    """A stock image in its archive. `key` is of all that it was made from. `packages` gives versions by name."""

    name: str
    key: str
    id: str
    size_bytes: int
    packages: dict[str, str]

    @property
    def tag(self) -> str:
        """The name that stays with this very image."""
        return f"{PREFIX}{self.name}:{self.id.removeprefix('sha256:')[:12]}"

    def to_json(self) -> JsonObject:
        return {
            "name": self.name,
            "key": self.key,
            "id": self.id,
            "size_bytes": self.size_bytes,
            "packages": dict(self.packages),
        }


def last_built_image(cache: Path, name: str) -> BuiltImage | None:
    """The stock image `name` as it was made last, if its archive is there."""
    try:
        raw = json.loads((cache / f"{name}.json").read_bytes())
        made = BuiltImage(raw["name"], raw["key"], raw["id"], raw["size_bytes"], raw["packages"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return made if _archive(cache, made.name, made.key).is_file() else None


async def is_loaded(engine: ContainerEngine, made: BuiltImage) -> bool:
    """Whether the engine has that very image, and as the latest of its name."""
    latest = await engine.image(f"{PREFIX}{made.name}:latest")
    return latest is not None and await engine.image(made.tag) == latest


async def build_stock_image(
    stock: StockImage, engine: ContainerEngine, cache: Path, on_progress: OnProgress
) -> BuiltImage:
    """Has the image in the engine, of the packages as apt has them now, under its tag and as `latest`.

    Raises ImageFailed and EngineFailed.
    """
    try:
        async with hold_folder(cache, lambda: on_progress("waits for another `plan image make`", "")):
            made = await _archived(stock, cache, on_progress)
            if not await is_loaded(engine, made):
                on_progress("gives it to the engine", "")
                await engine.load(_archive(cache, made.name, made.key))
            return made
    except OSError as error:
        raise ImageFailed(f"{error.filename or cache}: {error.strerror or error}") from error


async def _archived(stock: StockImage, cache: Path, on_progress: OnProgress) -> BuiltImage:
    apt = Apt(cache / "apt")
    on_progress("asks apt what it takes", "")
    architecture = await apt.architecture()
    packages = await apt.needed(stock.packages, stock.fetch)
    there = last_built_image(cache, stock.name)
    if there is not None and there.key == _key(stock, architecture, packages):
        return there
    work = cache / "work" / stock.name
    try:
        await _fetch(apt, packages, work, on_progress)
    except ImageFailed:  # The machine's lists may name what was replaced since.
        await apt.renew()
        packages = await apt.needed(stock.packages, stock.fetch)
        await _fetch(apt, packages, work, on_progress)
    await _fetch_npm(images_packages.tarballs_for(stock.npm, architecture), work, on_progress)
    making = _Making(stock, architecture, packages, cache, work)
    return await making.made(on_progress)


async def _fetch(apt: Apt, packages: Sequence[DebianPackage], work: Path, on_progress: OnProgress) -> None:
    size = sum(package.size_bytes for package in packages) / 1e6
    step = f"fetches {len(packages)} package{'s' if len(packages) > 1 else ''}, {size:.1f} MB"
    on_progress(step, "")
    come = 0

    def tell(name: str, version: str) -> None:
        nonlocal come
        come += 1
        on_progress(step, f"{come}: {name} {version}")

    await apt.fetch(packages, work / "packages", tell)


async def _fetch_npm(tarballs: Sequence[images_packages.NpmTarball], work: Path, on_progress: OnProgress) -> None:
    if tarballs:
        step = f"fetches {len(tarballs)} packages of npm's"
        on_progress(step, "")
        folder = work / "npm"
        await to_thread.run_sync(lambda: folder.mkdir(parents=True, exist_ok=True))
        await images_packages.fetch_tarballs(
            tarballs, folder, lambda name, version: on_progress(step, f"{name} {version}")
        )


@cache
def _edition() -> str:
    """What names the way in which images are made here."""
    return sha256_of_value({name: Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in MAKERS})


def _key(stock: StockImage, architecture: str, packages: Sequence[DebianPackage]) -> str:
    files: JsonObject = {package.file: package.hash for package in packages}
    return sha256_of_value(
        {"edition": _edition(), "stock": repr(stock), "architecture": architecture, "packages": files}
    )


def _archive(cache: Path, name: str, key: str) -> Path:
    return cache / f"{name}-{key[:16]}.tar"


class _Making:
    """One making of an archive, of packages that are there in `work`."""

    def __init__(
        self, stock: StockImage, architecture: str, packages: Sequence[DebianPackage], cache: Path, work: Path
    ) -> None:
        self._stock = stock
        self._architecture = architecture
        self._packages = packages
        self._npm = images_packages.tarballs_for(stock.npm, architecture)
        self._cache = cache
        self._work = work

    async def made(self, on_progress: OnProgress) -> BuiltImage:
        """The archive in `cache`, alone of its name; `work` is gone."""
        await to_thread.run_sync(self._clear)
        on_progress("unpacks them", "")
        for package in self._unpacked():
            await self._run(
                "sh", "-c", 'exec dpkg-deb --fsys-tarfile "$1" >"$2"', "sh", self._deb(package), self._tar(package)
            )
        if self._stock.modules:
            on_progress("makes a small Java runtime of them", "")
            await self._link_java()
        applets = await self._applets()
        on_progress("writes the image", "")
        return await to_thread.run_sync(self._written, applets)

    def _clear(self) -> None:
        """What a making left that was cut off."""
        for path in (self._work / "tars", self._work / "jdk", self._work / "jre", self._work / "shell"):
            shutil.rmtree(path, ignore_errors=True)
        (self._work / "tars").mkdir()

    async def _run(self, *argv: str | Path) -> list[str]:
        return await run_for_lines(argv, folder=self._work, timeout_s=limits.IMAGE_STEP_S)

    def _unpacked(self) -> list[DebianPackage]:
        """Those whose files are in the image as they are."""
        return [each for each in self._packages if not (self._stock.modules and each.name.startswith(JDK))]

    def _deb(self, package: DebianPackage) -> Path:
        return self._work / "packages" / package.file

    def _tar(self, package: DebianPackage) -> Path:
        return self._work / "tars" / f"{package.name}.tar"

    async def _applets(self) -> list[str]:
        """The names under which BusyBox is another program, as it says itself."""
        (package,) = (package for package in self._packages if package.name == "busybox-static")
        await self._run("dpkg-deb", "-x", self._deb(package), "shell")
        (program,) = await to_thread.run_sync(lambda: list((self._work / "shell").glob("**/bin/busybox")))
        return sorted({*await self._run(program, "--list")} - {"busybox"})

    async def _link_java(self) -> None:
        for package in self._packages:
            if package.name.startswith(JDK):
                await self._run("dpkg-deb", "-x", self._deb(package), "jdk")
        home = await to_thread.run_sync(_java_home, self._work / "jdk")
        await self._run(
            home / "bin" / "jlink", "--module-path", home / "jmods", "--add-modules", ",".join(self._stock.modules),
            "--strip-debug", "--no-man-pages", "--no-header-files", "--compress=2", "--output", "jre",
        )  # fmt: skip

    def _written(self, applets: Sequence[str]) -> BuiltImage:
        with ExitStack() as stack:
            tree, names = choose_files(self._stock, unpack_packages(self._trees(stack)), applets)
            versions = {package.name: package.version for package in self._packages if package.name in names}
            versions |= {tarball.name: tarball.version for tarball in self._npm if tarball.name in names}
            key = _key(self._stock, self._architecture, self._packages)
            archive = _archive(self._cache, self._stock.name, key)
            written = write_archive(archive, tree, self._settings(versions), self._names)
        made = BuiltImage(self._stock.name, key, written.id, written.size_bytes, versions)
        record = self._cache / f"{made.name}.json"
        record.with_suffix(".part").write_text(json.dumps(made.to_json(), indent=1))
        record.with_suffix(".part").replace(record)
        for other in self._cache.glob(f"{made.name}-*.tar*"):
            if other != archive:
                other.unlink()
        shutil.rmtree(self._work)
        return made

    def _trees(self, stack: ExitStack) -> Iterator[tuple[str, str, Iterable[ImageEntry]]]:
        for package in self._unpacked():
            yield package.name, "", stack.enter_context(read_tar_tree(self._tar(package), self._work))
        if self._stock.modules:
            (runtime,) = (each.name for each in self._packages if each.name.startswith(JDK) and "-jre-" in each.name)
            yield runtime, f"{JAVA}/", read_folder_tree(self._work / "jre")
        for tarball in self._npm:
            packed = self._work / "npm" / tarball.file
            tree = stack.enter_context(read_tar_tree(packed, packed.with_suffix("")))  # A scratch folder for each.
            yield tarball.name, "", images_packages.tarball_entries(tarball, tree)

    def _settings(self, versions: dict[str, str]) -> ImageSettings:
        labels = {
            "planloop.stock": self._stock.name,
            "planloop.packages": " ".join(f"{name}={version}" for name, version in sorted(versions.items())),
        }
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        return ImageSettings(self._architecture, self._stock.cmd, env, f"{USER}:{USER}", "/work", labels)

    def _names(self, id_: str) -> list[str]:
        name = f"{PREFIX}{self._stock.name}"
        return [f"{name}:{id_.removeprefix('sha256:')[:12]}", f"{name}:latest"]


def _java_home(jdk: Path) -> Path:
    """The JDK in a folder, made to find its settings there too, which are links to where they would be installed."""
    for path in jdk.rglob("*"):
        if path.is_symlink() and (target := path.readlink()).is_absolute():
            path.unlink()
            path.symlink_to(jdk / target.relative_to("/"))
    return next(jdk.glob("usr/lib/jvm/*/jmods")).parent
