"""The stock set: which Debian packages an image is made of, and which of their files it keeps.

Data, and what a plan means by its names. Libraries need not be named: those that a kept program is linked with come
along.
"""

from __future__ import annotations

from typing import Final

from containers.engine import EngineFailed, Reason
from schemas.frozen import frozen

PREFIX: Final = "planloop/"
USER: Final = 1000
JAVA: Final = "usr/lib/jvm/java"
"""Where the runtime stands that `jlink` makes."""


@frozen
class Stock:
    """`packages` are asked of apt, and of all that they need, what fits `fetch` is fetched. `keep` and `drop` are
    patterns of paths, in which `*` stands for any characters. `modules` of Java are made into a runtime of its own.
    """

    name: str
    summary: str
    packages: tuple[str, ...]
    fetch: tuple[str, ...]
    keep: tuple[str, ...]
    cmd: tuple[str, ...]
    drop: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


_SHELL: Final = ("busybox-static",)
_BASE: Final = (*_SHELL, "bash", "libc6", "libgcc-s1", "libtinfo6", "zlib1g")
_BASE_FILES: Final = ("usr/bin/busybox", "usr/bin/bash", "*/libgcc_s.so.1")
CERTIFICATES: Final = "ca-certificates"
_PYTHON_LIBRARIES: Final = """libbz2-1.0 libcrypt1 libexpat1 libffi* liblzma5 libncursesw6 libreadline8* libsqlite3-0*
    libssl3* libuuid1 libzstd1"""
# Tests and an editor, what needs Kerberos or Berkeley DB, and what Debian's own tools import.
_PYTHON_WITHOUT: Final = """*/__pycache__/* */config-3* */dist-packages/* */idlelib/* */lib-dynload/_dbm.*
    */lib-dynload/nis.* */lib2to3/* */pydoc_data/* */test/* */tests/*"""
_JAVA_MODULES: Final = """java.base java.logging java.management java.naming java.net.http java.sql java.xml
    jdk.crypto.ec jdk.httpserver jdk.unsupported jdk.zipfs"""

STOCK: Final = {
    stock.name: stock
    for stock in (
        Stock(
            name="shell",
            summary="BusyBox: a shell and the usual small programs",
            packages=_SHELL,
            fetch=_SHELL,
            keep=("usr/bin/busybox",),
            cmd=("sh",),
        ),
        Stock(
            name="python",
            summary="Python 3 with its standard library, bash, BusyBox",
            packages=(*_SHELL, "bash", CERTIFICATES, "python3"),
            fetch=(*_BASE, CERTIFICATES, "python3*", "libpython3*", *_PYTHON_LIBRARIES.split()),
            keep=(*_BASE_FILES, "usr/bin/python3*", "usr/lib/python3*"),
            drop=tuple(_PYTHON_WITHOUT.split()),
            cmd=("python3",),
        ),
        Stock(
            name="node",
            summary="Node.js, an npm that runs scripts, bash, BusyBox",
            packages=(*_SHELL, "bash", CERTIFICATES, "nodejs"),
            fetch=(*_BASE, CERTIFICATES, "nodejs", "node-*", "lib*"),
            keep=(*_BASE_FILES, "usr/bin/node*", "usr/share/nodejs/*", "usr/share/node_modules/*"),
            drop=("usr/share/nodejs/@types/*", "*.d.ts", "*.js.map"),
            cmd=("node",),
        ),
        Stock(
            name="clojure",
            summary="Clojure on a small Java runtime, bash, BusyBox",
            packages=(*_SHELL, "bash", "clojure", "default-jdk-headless"),
            fetch=(*_BASE, "libstdc++6", "lib*-clojure", "libclojure-java", "openjdk-*-headless"),
            keep=(*_BASE_FILES, f"{JAVA}/*", "usr/share/java/*.jar"),
            cmd=("clojure",),
            modules=tuple(_JAVA_MODULES.split()),
        ),
    )
}


def missing(image: str) -> EngineFailed | None:
    """Why `image`, which the engine has not, is not to be had; None for one that a registry may have.

    No registry is asked for a name of ours: whatever somebody put there would be something else.
    """
    if not image.startswith(PREFIX):
        return None
    name = image.removeprefix(PREFIX).split("@")[0].split(":")[0]
    if name in STOCK:
        return EngineFailed(Reason.NO_IMAGE, f"there is no image {image} yet", f"plan image make {name}")
    return EngineFailed(Reason.NO_IMAGE, f"there is no stock image {image}", f"there are {', '.join(STOCK)}")
