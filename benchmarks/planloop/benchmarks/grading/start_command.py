"""Find the command that starts a program in a folder: from its manifest, its main file, or the case.

An executable `run`, the `start` script of package.json, the alias `:run` of deps.edn, a Clojure `-main` below `src`, a
file called main, server, app, index or core. Reads the folder and runs nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from planloop.compiler.read import read_source
from planloop.schemas.canonical_json import Json, decode
from planloop.schemas.frozen import frozen

AUTO: Final = "auto"
RUNS: Final = ("run", "run.sh", "start.sh")
STEMS: Final = ("main", "server", "app", "index", "core")
FOLDERS: Final = (".", "src")
_CLOJURE: Final = ("clojure", "-cp", "src:.")
_NBB: Final = ("nbb", "--classpath", "src:.")
PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "ts": ("node",),
    "mts": ("node",),
    "js": ("node",),
    "mjs": ("node",),
    "cjs": ("node",),
    "cljs": _NBB,
    "clj": _CLOJURE,
    "cljc": _CLOJURE,
    "py": ("python3",),
}
"""What runs a file with such an ending."""
READ_MAX: Final = 1 << 20
# What they look at is an agent's: no text can be read in two ways, and all that repeats is bounded.
_NAMESPACE: Final = re.compile(
    r"\(ns\s{1,99}(?:\^(?:\{[^}]{0,999}\}|[^\s{]\S{0,99})\s{1,99}){0,9}([\w.*+!?<>=-]{1,199})"
)
_HAS_MAIN: Final = re.compile(r"\(defn\s{1,99}(?:\^\S{1,99}\s{1,99}){0,9}-main\b")
_CALLS_MAIN: Final = re.compile(r"^\(-main\b", re.MULTILINE)


@frozen
class StartCommand:
    """`argv` starts it in its folder; None when there is nothing to start. `tried` is what was looked for, in order."""

    argv: tuple[str, ...] | None
    tried: tuple[str, ...]


def find_start_command(folder: Path, run: str | list[str]) -> StartCommand:
    """How the program in `folder` is started: as `run` says, which is a command or `auto`. Blocks: for a thread."""
    if run != AUTO:
        argv = ("sh", "-c", run) if isinstance(run, str) else tuple(str(word) for word in run)
        return StartCommand(argv, ("the case's own command",))
    tried: list[str] = []
    for name, look in _LOOKS.items():
        tried.append(name)
        found = next(iter(look(folder)), None)
        if found is not None:
            return StartCommand(tuple(found), tuple(tried))
    return StartCommand(None, tuple(tried))


def _run(folder: Path) -> Iterator[Sequence[str]]:
    for name in RUNS:
        path = folder / name
        if path.is_file():
            yield [f"./{name}"] if os.access(path, os.X_OK) else [*_interpreter(_text(path)), f"./{name}"]


def _interpreter(text: str) -> Sequence[str]:
    """What the first line asks for: not every tool that writes a file can make it executable."""
    first = text.partition("\n")[0]
    return first[2:].split() if first.startswith("#!") and first[2:].split() else ["sh"]


def _npm_start(folder: Path) -> Iterator[Sequence[str]]:
    try:
        told: Json = decode(_text(folder / "package.json"))
    except ValueError:
        return
    scripts = told.get("scripts") if isinstance(told, dict) else None
    if isinstance(scripts, dict) and scripts.get("start"):
        yield ["npm", "start"]


def _deps_run(folder: Path) -> Iterator[Sequence[str]]:
    found = read_source(_text(folder / "deps.edn").encode(), file="deps.edn").value
    alias = _member(_member(found, "aliases"), "run")
    paths = [*_texts(_member(found, "paths")), *_texts(_member(alias, "extra-paths"))] or ["src"]
    start = ["clojure", "-cp", ":".join(paths)]
    options, function = _texts(_member(alias, "main-opts")), _member(alias, "exec-fn")
    if options:
        yield [*start, *options]
    elif isinstance(function, str) and "/" in function:
        yield [*start, "-e", f"((requiring-resolve '{function}) {{}})"]


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _texts(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _clojure_main(folder: Path) -> Iterator[Sequence[str]]:
    """A namespace with a `-main`, of files called as usual before others, high up before deep down."""
    names = [path for ending in ("clj", "cljc") for path in (folder / "src").glob(f"**/*.{ending}")]
    for path in sorted(names, key=lambda path: (_place(path.stem), len(path.parts), str(path))):
        text = _text(path)
        if (found := _NAMESPACE.search(text)) and _HAS_MAIN.search(text):
            yield [*_CLOJURE, "-m", found[1]]


def _place(stem: str) -> int:
    order = ("core", *(each for each in STEMS if each != "core"))
    return order.index(stem) if stem in order else len(order)


def _by_name(folder: Path) -> Iterator[Sequence[str]]:
    for below in FOLDERS:
        for ending, program in PROGRAMS.items():
            for stem in STEMS:
                path = folder / below / f"{stem}.{ending}"
                if path.is_file():
                    yield _started(path, program, path.relative_to(folder).as_posix())
    if (folder / "src").is_dir():
        for path in sorted((folder / "src").glob("**/*.cljs"), key=lambda path: (_place(path.stem), str(path))):
            if _place(path.stem) < len(STEMS):
                yield _started(path, _NBB, path.relative_to(folder).as_posix())


def _started(path: Path, program: Sequence[str], name: str) -> Sequence[str]:
    """A Lisp file with a `-main` that it does not call itself is started by its namespace."""
    if program in (_NBB, _CLOJURE):
        text = _text(path)
        found = _NAMESPACE.search(text)
        if found and _HAS_MAIN.search(text) and not _CALLS_MAIN.search(text):
            return [*program, "-m", found[1]]
    return [*program, name]


def _text(path: Path) -> str:
    """What the file holds; nothing when it is not there."""
    try:
        with path.open("rb") as opened:
            return opened.read(READ_MAX).decode(errors="replace")
    except OSError:
        return ""


_LOOKS: Final[Mapping[str, Callable[[Path], Iterator[Sequence[str]]]]] = {
    "an executable `run`": _run,
    "`scripts.start` of package.json": _npm_start,
    "the alias `:run` of deps.edn": _deps_run,
    "a `-main` in src/**/*.clj": _clojure_main,
    "main, server, app, index or core with .ts, .js, .cljs, .clj or .py": _by_name,
}
