"""Build a stock image from Debian packages and load it into an engine."""

from __future__ import annotations

import json
import posixpath
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import IO, Final

from anyio import to_thread

from planloop.containers.engine.engine import ContainerEngine
from planloop.containers.images import packages as images_packages
from planloop.containers.images.archive import (
    ImageEntry,
    ImageFailed,
    ImageSettings,
    ImageTree,
    data_entry,
    folder_entry,
    read_folder_tree,
    symlink_entry,
    text_entry,
    write_archive,
)
from planloop.containers.images.packages import Apt, DebianPackage, run_for_lines
from planloop.containers.images.rootfs import hold_folder, read_tar_tree
from planloop.containers.images.stock import CERTIFICATES, CLOJURE_SCRIPT, JAVA, NPM_SCRIPT, PREFIX, USER, StockImage
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen, remade

MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian: all Debian architectures except s390x and 32-bit ARM.
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS = 1, 5
MERGED_USR_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders that are links to the folders of the same name in `usr`."""


def merged_usr_path(path: str) -> str:
    """The path of a package's file if `bin`, `lib` … are links into `usr`."""
    return f"usr/{path}" if path.partition("/")[0] in MERGED_USR_FOLDERS else path


def library_closure(pool: Mapping[str, ImageEntry], chosen: Iterable[str]) -> set[str]:
    """Return `chosen` with the link targets and libraries that it needs from `pool`, without dangling symlinks.

    Raises ImageFailed for a library that the pool does not have.
    """
    libraries = _libraries(pool)
    todo, out = sorted(chosen), set[str]()
    while todo:
        path = todo.pop()
        entry = pool.get(path)
        if entry is None or path in out:
            continue
        if entry.kind == "symlink" and not _leads_somewhere(pool, entry):
            continue
        out.add(path)
        todo += _next(entry, libraries)
    return out


def _next(entry: ImageEntry, libraries: Mapping[str, str]) -> Iterator[str]:
    if entry.kind == "symlink":
        yield _target(entry)
    elif entry.kind == "file" and entry.content is not None:
        with entry.content() as opened:
            needed = needed_libraries(opened)
        for name in needed:
            if name.startswith("/"):
                yield merged_usr_path(name.lstrip("/"))
            elif name in libraries:
                yield libraries[name]
            else:
                raise ImageFailed(f"`{entry.path}` needs {name}, which no downloaded package contains")


def _libraries(pool: Mapping[str, ImageEntry]) -> dict[str, str]:
    """The paths of libraries by name. Of several, the one in the default folder of the linker."""
    shared = [path for path in pool if ".so" in posixpath.basename(path) and pool[path].kind != "folder"]
    return {posixpath.basename(path): path for path in sorted(shared, key=lambda path: (-path.count("/"), path))}


def _target(link: ImageEntry) -> str:
    joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(link.path), link.target))
    return merged_usr_path(joined.lstrip("/"))


def _leads_somewhere(pool: Mapping[str, ImageEntry], link: ImageEntry) -> bool:
    seen = set[str]()
    entry: ImageEntry | None = link
    while entry is not None and entry.kind == "symlink" and entry.path not in seen:
        seen.add(entry.path)
        entry = pool.get(_target(entry))
    return entry is not None and entry.kind != "symlink"


def needed_libraries(opened: IO[bytes]) -> tuple[str, ...]:
    """The libraries that a program is linked with, and the path of its interpreter; empty for other files."""
    content = opened.read(len(MAGIC))
    if content != MAGIC:
        return ()
    content += opened.read()
    offset, (size, count) = struct.unpack_from("<Q", content, 32)[0], struct.unpack_from("<HH", content, 54)
    parts = [struct.unpack_from("<IIQQQQ", content, offset + size * index) for index in range(count)]
    found = [_text(content, start) for kind, _, start, *_ in parts if kind == INTERPRETER]
    loaded = [(start, virtual, length) for kind, _, start, virtual, _, length in parts if kind == LOAD]
    for kind, _, start, _, _, length in parts:
        if kind == DYNAMIC:
            tags = [struct.unpack_from("<QQ", content, at) for at in range(start, start + length, 16)]
            (strings,) = [value for tag, value in tags if tag == STRINGS]
            base = next(begin + strings - virtual for begin, virtual, span in loaded if 0 <= strings - virtual < span)
            found += [_text(content, base + value) for tag, value in tags if tag == NEEDED]
    return tuple(found)


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode()


PASSWD: Final = f"root:x:0:0:root:/root:/bin/sh\nplan:x:{USER}:{USER}:plan:/tmp:/bin/sh\n"
"""A home folder that is writable even if the root file system is read-only."""
GROUP: Final = f"root:x:0:\nplan:x:{USER}:\n"
BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"


@frozen
class UnpackedPackages:
    """Files by path, each with its package."""

    entries: Mapping[str, ImageEntry]
    owners: Mapping[str, str]


def unpack_packages(trees: Iterable[tuple[str, str, Iterable[ImageEntry]]]) -> UnpackedPackages:
    """All files and links of (package, target folder, files), owned by root, dated 1970, with one of two modes."""
    entries, owners = dict[str, ImageEntry](), dict[str, str]()
    for package, under, tree in trees:
        for entry in tree:
            if entry.kind != "folder":
                path = merged_usr_path(f"{under}{entry.path}")
                mode = 0o755 if entry.mode & 0o111 or entry.kind == "symlink" else 0o644
                entries[path] = remade(entry, path=path, mode=mode, uid=0, gid=0, mtime=0, inode="")
                owners[path] = package
    return UnpackedPackages(entries, owners)


def choose_files(
    stock: StockImage, found: UnpackedPackages, applets: Sequence[str]
) -> tuple[ImageTree, frozenset[str]]:
    """Return the tree of the image, and the packages that it has files of. Raises ImageFailed."""
    kept = library_closure(found.entries, [path for path in found.entries if _is_kept(path, stock)])
    packages = {found.owners[path] for path in kept}
    tree = ImageTree()
    for top in MERGED_USR_FOLDERS:
        if top in ("bin", "sbin") or any(path.startswith(f"usr/{top}/") for path in kept):
            tree.add(symlink_entry(top, f"usr/{top}"))
    for path in sorted({*kept, *_copyrights(found, packages)}):
        tree.add(found.entries[path])
    for each in _own(stock, applets, kept):
        if each.path not in tree:
            tree.add(each)
    if bundle := _bundle(found):
        tree.add(data_entry(BUNDLE, bundle))
        tree.add(symlink_entry("usr/lib/ssl/cert.pem", f"/{BUNDLE}"))
        packages.add(CERTIFICATES)
    return tree, frozenset(packages)


def _is_kept(path: str, stock: StockImage) -> bool:
    is_wanted = any(fnmatchcase(path, pattern) for pattern in stock.keep)
    return is_wanted and not any(fnmatchcase(path, pattern) for pattern in stock.drop)


def _copyrights(found: UnpackedPackages, packages: set[str]) -> list[str]:
    paths = [f"usr/share/doc/{package}/copyright" for package in packages]
    return [path for path in paths if path in found.entries and found.entries[path].kind == "file"]


def _own(stock: StockImage, applets: Sequence[str], kept: set[str]) -> list[ImageEntry]:
    out = [
        text_entry("etc/passwd", PASSWD),
        text_entry("etc/group", GROUP),
        text_entry("etc/nsswitch.conf", "hosts: files dns\n"),
        folder_entry("root", mode=0o700),
        folder_entry("tmp", mode=0o1777),
        folder_entry("usr/sbin"),
        folder_entry("var/tmp", mode=0o1777),
        folder_entry("work", owner=USER),
        *(symlink_entry(f"usr/bin/{applet}", "busybox") for applet in applets),
    ]
    if stock.modules:
        out += [
            text_entry("usr/bin/clojure", CLOJURE_SCRIPT, mode=0o755),
            symlink_entry("usr/bin/java", f"/{JAVA}/bin/java"),
        ]
    if "usr/bin/node" in kept:
        out.append(text_entry("usr/bin/npm", NPM_SCRIPT, mode=0o755))
    return out


def _bundle(found: UnpackedPackages) -> bytes:
    """The bundle that installing `ca-certificates` would create from its files."""
    pieces = []
    for path in sorted(found.entries):
        content = found.entries[path].content
        if path.startswith(f"usr/share/{CERTIFICATES}/") and content is not None:
            with content() as opened:
                pieces.append(opened.read().rstrip(b"\n") + b"\n")
    return b"".join(pieces)


# All files are in one locked folder. Downloads stay until the archive is complete, so an interrupted build continues.
# The archive stays, so that an engine that lost its images gets them again quickly.

MAKERS: Final = ("archive", "packages", "rootfs", "stock", "stock_build")
"""The modules that build images. Their source is part of the key, because a change may change the image."""
JDK: Final = "openjdk-"
OnProgress = Callable[[str, str], None]
"""Called with each step, and from time to time with its progress."""


@frozen
class BuiltImage:
    """A stock image in its archive. `key` covers all its sources. `packages` gives versions by name."""

    name: str
    key: str
    id: str
    size_bytes: int
    packages: dict[str, str]

    @property
    def tag(self) -> str:
        """The tag that refers only to this image."""
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
    """The last build of the stock image `name`, if its archive exists."""
    try:
        raw = json.loads((cache / f"{name}.json").read_bytes())
        made = BuiltImage(raw["name"], raw["key"], raw["id"], raw["size_bytes"], raw["packages"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return made if _archive(cache, made.name, made.key).is_file() else None


async def is_loaded(engine: ContainerEngine, made: BuiltImage) -> bool:
    """Whether the engine has this image, also as `latest`."""
    latest = await engine.image(f"{PREFIX}{made.name}:latest")
    return latest is not None and await engine.image(made.tag) == latest


async def build_stock_image(
    stock: StockImage, engine: ContainerEngine, cache: Path, on_progress: OnProgress
) -> BuiltImage:
    """Build the image from the current packages of apt, and load it into the engine under its tag and as `latest`.

    Raises ImageFailed and EngineFailed.
    """
    try:
        async with hold_folder(cache, lambda: on_progress("waiting for another `plan image make`", "")):
            made = await _archived(stock, cache, on_progress)
            if not await is_loaded(engine, made):
                on_progress("loading it into the engine", "")
                await engine.load(_archive(cache, made.name, made.key))
            return made
    except OSError as error:
        raise ImageFailed(f"{error.filename or cache}: {error.strerror or error}") from error


async def _archived(stock: StockImage, cache: Path, on_progress: OnProgress) -> BuiltImage:
    apt = Apt(cache / "apt")
    on_progress("resolving packages with apt", "")
    architecture = await apt.architecture()
    packages = await apt.needed(stock.packages, stock.fetch)
    there = last_built_image(cache, stock.name)
    if there is not None and there.key == _key(stock, architecture, packages):
        return there
    work = cache / "work" / stock.name
    try:
        await _fetch(apt, packages, work, on_progress)
    except ImageFailed:  # The machine's lists may name packages that no longer exist.
        await apt.renew()
        packages = await apt.needed(stock.packages, stock.fetch)
        await _fetch(apt, packages, work, on_progress)
    await _fetch_npm(images_packages.tarballs_for(stock.npm, architecture), work, on_progress)
    making = _Making(stock, architecture, packages, cache, work)
    return await making.made(on_progress)


async def _fetch(apt: Apt, packages: Sequence[DebianPackage], work: Path, on_progress: OnProgress) -> None:
    size = sum(package.size_bytes for package in packages) / 1e6
    step = f"downloading {len(packages)} package{'s' if len(packages) > 1 else ''}, {size:.1f} MB"
    on_progress(step, "")
    come = 0

    def report(name: str, version: str) -> None:
        nonlocal come
        come += 1
        on_progress(step, f"{come}: {name} {version}")

    await apt.fetch(packages, work / "packages", report)


async def _fetch_npm(tarballs: Sequence[images_packages.NpmTarball], work: Path, on_progress: OnProgress) -> None:
    if tarballs:
        step = f"downloading {len(tarballs)} npm packages"
        on_progress(step, "")
        folder = work / "npm"
        await to_thread.run_sync(lambda: folder.mkdir(parents=True, exist_ok=True))
        await images_packages.fetch_tarballs(
            tarballs, folder, lambda name, version: on_progress(step, f"{name} {version}")
        )


@cache
def _edition() -> str:
    """The digest of the modules that build images."""
    return sha256_of_value({name: Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in MAKERS})


def _key(stock: StockImage, architecture: str, packages: Sequence[DebianPackage]) -> str:
    files: JsonObject = {package.file: package.hash for package in packages}
    return sha256_of_value(
        {"edition": _edition(), "stock": repr(stock), "architecture": architecture, "packages": files}
    )


def _archive(cache: Path, name: str, key: str) -> Path:
    return cache / f"{name}-{key[:16]}.tar"


class _Making:
    """One build of an archive, from downloaded packages in `work`."""

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
        """Write the archive to `cache`, remove older ones of the same name and `work`, and return the image."""
        await to_thread.run_sync(self._clear)
        on_progress("unpacking packages", "")
        for package in self._unpacked():
            await self._run(
                "sh", "-c", 'exec dpkg-deb --fsys-tarfile "$1" >"$2"', "sh", self._deb(package), self._tar(package)
            )
        if self._stock.modules:
            on_progress("building a small Java runtime", "")
            await self._link_java()
        applets = await self._applets()
        on_progress("writing the image", "")
        return await to_thread.run_sync(self._written, applets)

    def _clear(self) -> None:
        """Remove what an interrupted build left."""
        for path in (self._work / "tars", self._work / "jdk", self._work / "jre", self._work / "shell"):
            shutil.rmtree(path, ignore_errors=True)
        (self._work / "tars").mkdir()

    async def _run(self, *argv: str | Path) -> list[str]:
        return await run_for_lines(argv, folder=self._work, timeout_s=limits.IMAGE_STEP_S)

    def _unpacked(self) -> list[DebianPackage]:
        """Packages whose files are copied without change."""
        return [each for each in self._packages if not (self._stock.modules and each.name.startswith(JDK))]

    def _deb(self, package: DebianPackage) -> Path:
        return self._work / "packages" / package.file

    def _tar(self, package: DebianPackage) -> Path:
        return self._work / "tars" / f"{package.name}.tar"

    async def _applets(self) -> list[str]:
        """The names of the programs in BusyBox, from its own list."""
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
            tree = stack.enter_context(
                read_tar_tree(packed, packed.with_suffix(""))
            )  # A separate scratch path for each.
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
    """The JDK in a folder, with its links to settings changed to point into the folder."""
    for path in jdk.rglob("*"):
        if path.is_symlink() and (target := path.readlink()).is_absolute():
            path.unlink()
            path.symlink_to(jdk / target.relative_to("/"))
    return next(jdk.glob("usr/lib/jvm/*/jmods")).parent
