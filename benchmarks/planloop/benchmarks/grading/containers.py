"""Containers for grading: one runs the program under test, with a load-aware deadline; one runs check commands."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from planloop.benchmarks.runs.plan import CONTAINER_ENV, CONTAINER_HOME, WORK_FOLDER
from planloop.compiler.read import read_source
from planloop.containers.engine.engine import (
    ContainerCreation,
    ContainerEngine,
    ContainerLimits,
    ContainerMount,
    ContainerNetwork,
    ContainerRights,
    EngineErrorReason,
    EngineFailed,
    ExecCommand,
    ExecEnd,
    FoundContainer,
)
from planloop.schemas import quantities
from planloop.schemas.canonical_json import Json, JsonObject, decode, sha256_hex
from planloop.schemas.frozen import frozen

# The start command is searched in this order: an executable `run`, the `start` script of package.json, the alias `:run`
# of deps.edn, a Clojure `-main` below `src`, a file called main, server, app, index or core. The search reads the
# folder and runs nothing.

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
"""The program that runs a file, by its extension."""
READ_MAX: Final = 1 << 20
# An agent wrote the texts, so the patterns are unambiguous and every repetition is bounded.
_NAMESPACE: Final = re.compile(
    r"\(ns\s{1,99}(?:\^(?:\{[^}]{0,999}\}|[^\s{]\S{0,99})\s{1,99}){0,9}([\w.*+!?<>=-]{1,199})"
)
_HAS_MAIN: Final = re.compile(r"\(defn\s{1,99}(?:\^\S{1,99}\s{1,99}){0,9}-main\b")
_CALLS_MAIN: Final = re.compile(r"^\(-main\b", re.MULTILINE)


@frozen
class StartCommand:
    """How to start a program in its folder: `argv`, None if there is nothing to start. `tried` lists the searches."""

    argv: tuple[str, ...] | None
    tried: tuple[str, ...]


def find_start_command(folder: Path, run: str | list[str]) -> StartCommand:
    """Find how to start the program in `folder`. `run` is a command or `auto`. Blocks: call in a thread."""
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
    """The interpreter in the first line. Not every tool that writes files can make them executable."""
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
    """Namespaces with a `-main`: files with usual names first, then by depth."""
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
    """The command for a file. A Lisp file with a `-main` that it does not call itself is started by its namespace."""
    if program in (_NBB, _CLOJURE):
        text = _text(path)
        found = _NAMESPACE.search(text)
        if found and _HAS_MAIN.search(text) and not _CALLS_MAIN.search(text):
            return [*program, "-m", found[1]]
    return [*program, name]


def _text(path: Path) -> str:
    """The file's content; empty if it is missing."""
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


# A verdict must not depend on the load of the machine. Linux reports how long processes waited for a processor
# (pressure stall information, Documentation/accounting/psi.rst of the kernel). Up to a limit, this time does not count
# against the program.

PRESSURE: Final = Path("/proc/pressure/cpu")
LEAST: Final = 0.25  # The share of each second that always counts: a deadline is extended at most fourfold.


def stalled_s(path: Path = PRESSURE) -> float:
    """Seconds in which a process of this machine waited for a processor, since boot; 0 if unknown."""
    try:
        line = path.read_text().splitlines()[0]
        return int(line.rpartition("total=")[2]) / 1_000_000
    except (OSError, ValueError, IndexError):
        return 0.0


class LoadAwareDeadline:
    """A deadline of `within_s` seconds on an idle machine; later on a busy one. Times are seconds of one clock."""

    def __init__(self, within_s: float, now: float, stalled: float) -> None:
        self._left_s = within_s
        self._now, self._stalled = now, stalled

    def is_over(self, now: float, stalled: float) -> bool:
        """Whether the deadline has passed. Call it repeatedly; `stalled` is the value of `stalled_s` at `now`."""
        passed, stood = now - self._now, stalled - self._stalled
        self._now, self._stalled = now, stalled
        self._left_s -= max(passed * LEAST, passed - max(0.0, stood))
        return self._left_s <= 0


# The program may write to the export of the workspace and to `/tmp`. It runs on a separate internal network without
# access to other networks; the checks reach it by its address. `no-entry` (nothing to start) and `not-ready` (it does
# not respond) are failures of the program. A failure of the engine says nothing about the program and is EngineFailed.

HOST_NAME: Final = "work"
"""Host name in containers for grading. It is the same in all runs, so that equal runs do not differ."""
LABEL: Final = "planloop.bench"
BOUND: Final = ContainerLimits(memory_bytes=1 << 30, pids=256)
PAUSE_S: Final = 0.05
"""Pause between two readiness probes."""
ASK_S: Final = 5.0
WITHIN_S: Final = 30.0
LOG_BYTES_MAX: Final = 1 << 20
KILLED: Final = frozenset({128 + 9, 128 + 15})
"""Exit codes of a container that was killed or stopped."""
REMOVED: Final = "a container was removed while it was used for grading"


@frozen
class GradedProgram:
    """A program to start: `serve` of the case, the export in `folder`, the id or name of an image.

    `name` is the name of the attempt; `run` identifies the run on this machine.
    """

    serve: JsonObject
    folder: Path
    image: str
    name: str
    run: str

    @property
    def container(self) -> str:
        """The name of its container and of its network; the same after a crash."""
        return f"planloop-bench-{sha256_hex(f'{self.run} {self.name}'.encode())[:12]}"

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.run}


@frozen
class ProgramStart:
    """The state of a program. `url` is empty if it does not respond; `words` then say why. `log` is its output.

    `ref` is the id of its container, empty if none was created.
    """

    words: str
    url: str = ""
    log: bytes = b""
    ref: str = ""


@asynccontextmanager
async def run_program(engine: ContainerEngine, program: GradedProgram) -> AsyncIterator[ProgramStart]:
    """Run the program while the block runs. Yields it once it is ready, or why it is not. Raises EngineFailed."""
    start = await anyio.to_thread.run_sync(find_start_command, program.folder, program.serve["run"])
    if start.argv is None:
        yield ProgramStart(f"no-entry: found nothing to start; looked for {', '.join(start.tried)}")
        return
    await _clear(engine, program)
    try:
        await engine.make_network(program.container, program.labels, is_internal=True)
        id_ = await engine.create(_creation(program, start.argv))
        await engine.start(id_)
        why = await _why_not_ready(engine, id_, program)
        shown = f"`{' '.join(start.argv)}`"
        if why:
            yield ProgramStart(f"not-ready: {why}; started {shown}", log=await _log(engine, id_), ref=id_)
        else:
            yield ProgramStart(f"{shown} responds", await _url(engine, id_, program), ref=id_)
    finally:
        with anyio.CancelScope(shield=True), suppress(EngineFailed):
            await _clear(engine, program)


async def was_killed(engine: ContainerEngine, ref: str, *, ends_itself: bool) -> bool:
    """Whether the container was killed from outside, except for lack of memory. Raises EngineFailed if it is missing.

    Only a process outside the container can kill its first process, but the program can imitate that exit code. So a
    program under test has `ends_itself`. Other containers for grading sleep: if one ends, it was killed from outside.
    """
    found = await engine.container(ref)
    if found is None:
        raise EngineFailed(EngineErrorReason.NOT_FOUND, REMOVED)
    is_over = found.state in ("exited", "dead") and not found.last_run.is_out_of_memory
    return is_over and (found.last_run.exit_code in KILLED or not ends_itself)


async def remove_leftovers(engine: ContainerEngine, run: str) -> None:
    """Remove containers and networks that a crashed owner left. Call it before any grading. Raises EngineFailed."""
    for found in await engine.containers({LABEL: run}):
        await engine.remove(found.id)
    for network in await engine.networks({LABEL: run}):
        await engine.remove_network(network)


def _creation(program: GradedProgram, argv: tuple[str, ...]) -> ContainerCreation:
    return ContainerCreation(
        program.container,
        program.image,
        program.labels,
        cmd=argv,
        entrypoint=(),
        env={**CONTAINER_ENV, "PORT": str(program.serve["port"]), "HOST": "0.0.0.0"},
        workdir=WORK_FOLDER,
        mounts=(ContainerMount(WORK_FOLDER, host=str(program.folder)), ContainerMount(CONTAINER_HOME)),
        network=ContainerNetwork((program.container,), host_name=HOST_NAME),
        bound=BOUND,
        rights=ContainerRights(is_read_only=True),
    )


async def _clear(engine: ContainerEngine, program: GradedProgram) -> None:
    """Remove the program's container and network, also those of a killed grading of the same attempt."""
    found = await engine.container(program.container)
    if found is not None:
        await engine.remove(found.id)
    if program.container in await engine.networks(program.labels):
        await engine.remove_network(program.container)


async def _url(engine: ContainerEngine, id_: str, program: GradedProgram) -> str:
    found = await engine.container(id_)
    return _url_of(found, program) if found is not None else ""


def _url_of(found: FoundContainer, program: GradedProgram) -> str:
    address = found.addresses.get(program.container, "")
    return f"http://{address}:{program.serve['port']}" if address else ""


async def _why_not_ready(engine: ContainerEngine, id_: str, program: GradedProgram) -> str:
    """Wait until the program responds and return an empty text, or return why it does not, at the latest at its
    deadline."""
    ready = program.serve["ready"]
    within_s = _seconds(ready.get("within", WITHIN_S))
    patience = LoadAwareDeadline(within_s, anyio.current_time(), stalled_s())
    while not patience.is_over(anyio.current_time(), stalled_s()):
        found = await engine.container(id_)
        if found is None:
            raise EngineFailed(EngineErrorReason.NOT_FOUND, REMOVED)
        if found.state in ("exited", "dead"):
            return await _end(engine, id_, found)
        url = _url_of(found, program)
        if url and await _answers(url, ready):
            return ""
        await anyio.sleep(PAUSE_S)
    return f"no response on port {program.serve['port']} within {within_s:g} s"


def _seconds(raw: Json) -> float:
    if isinstance(raw, str):
        return quantities.parse_duration(raw) or WITHIN_S
    return float(raw) if isinstance(raw, int | float) else WITHIN_S


async def _end(engine: ContainerEngine, id_: str, found: FoundContainer) -> str:
    if found.last_run.error:
        return f"it could not be started: {found.last_run.error}"
    lines = (await _log(engine, id_)).decode(errors="replace").strip().splitlines()
    last = f": {lines[-1].strip()[:200]}" if lines else ""
    return f"it ended with exit {found.last_run.exit_code}{last}"


async def _answers(url: str, ready: JsonObject) -> bool:
    """Whether the URL responds, with any status."""
    import aiohttp  # noqa: PLC0415 - takes 150 ms, and most runs serve nothing

    timeout = aiohttp.ClientTimeout(total=ASK_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}{ready.get('http', '/')}", allow_redirects=False) as response,
        ):
            return response.status > 0
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def _log(engine: ContainerEngine, id_: str) -> bytes:
    out = bytearray()
    logs: AsyncGenerator[bytes, None] = engine.logs(id_, is_following=False)
    with suppress(EngineFailed):
        async with aclosing(logs) as pieces:
            async for piece in pieces:
                out += piece
                if len(out) > LOG_BYTES_MAX:
                    break
    return bytes(out[:LOG_BYTES_MAX])


# The container for check commands is not in the plan. Its labels let the next owner remove it after a crash.

CHECKS: Final = "/checks"


@frozen
class CheckContainer:
    """A running container with the graded workspace at /work, in which check commands run."""

    engine: ContainerEngine
    ref: str

    async def run(self, argv: tuple[str, ...], mark: str, timeout_s: float, env: Mapping[str, str]) -> ExecEnd:
        """Run a command to its end, then stop the processes that it left. Raises EngineFailed."""
        try:
            return await self.engine.run(self.ref, ExecCommand(argv, mark, env, WORK_FOLDER, timeout_s=timeout_s))
        finally:
            with anyio.CancelScope(shield=True), suppress(EngineFailed):
                await self.engine.end(self.ref, mark)


@asynccontextmanager
async def open_check_container(
    engine: ContainerEngine, run: str, name: str, image: str, workspace: Path, checks: Path
) -> AsyncIterator[CheckContainer]:
    """Start the container for the attempt `name` of `run`, with its `checks` at /checks. Raises EngineFailed."""
    full = f"planloop-bench-checks-{sha256_hex(f'{run} {name}'.encode())[:12]}"
    mounts = (
        ContainerMount(WORK_FOLDER, str(workspace)),
        ContainerMount(CHECKS, str(checks), is_read_only=True),
        ContainerMount(CONTAINER_HOME),
    )
    creation = ContainerCreation(
        full,
        image,
        {LABEL: run},
        cmd=("sleep", "infinity"),
        entrypoint=(),
        env=CONTAINER_ENV,
        workdir=WORK_FOLDER,
        mounts=mounts,
        network=ContainerNetwork(host_name=HOST_NAME),
        bound=BOUND,
        rights=ContainerRights(is_read_only=True),
    )
    await _remove(engine, full)
    try:
        ref = await engine.create(creation)
        await engine.start(ref)
        yield CheckContainer(engine, ref)
    finally:
        with anyio.CancelScope(shield=True), suppress(EngineFailed):
            await _remove(engine, full)


async def _remove(engine: ContainerEngine, name: str) -> None:
    found = await engine.container(name)
    if found is not None and LABEL in found.labels:
        await engine.remove(found.id)
