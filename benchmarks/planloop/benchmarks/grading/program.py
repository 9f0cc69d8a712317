"""The program under test, started afresh in a container of the case's image, and gone when its checks are over.

It has the export of the workspace, in which it may write as people's programs do, and a `/tmp` of its own; it reaches
nobody. It runs on a network of its own, on which the checks reach it from outside by its address. That nothing can be
started (`no-entry`) and that what was started does not answer (`not-ready`) say something of the program; an engine
that does not do as it is told says nothing, and is EngineFailed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from planloop.benchmarks.grading.patience import Patience, stalled_s
from planloop.benchmarks.grading.serving import entry_of
from planloop.benchmarks.inside import ENV, HOME, INSIDE
from planloop.containers.engine import Bound, Creation, Engine, EngineFailed, Found, Placed, Reason
from planloop.schemas import durations
from planloop.schemas.encoding import Json, JsonObject, digest
from planloop.schemas.frozen import frozen

HOST_NAME: Final = "work"
"""What containers that grade call themselves: nothing that differs between equal runs."""
LABEL: Final = "planloop.bench"
BOUND: Final = Bound(memory_bytes=1 << 30, pids=256)
PAUSE_S: Final = 0.05
"""Between two looks at whether it answers."""
ASK_S: Final = 5.0
WITHIN_S: Final = 30.0
LOG_BYTES_MAX: Final = 1 << 20
KILLED: Final = frozenset({128 + 9, 128 + 15})
"""Exit codes of a container that was killed or stopped."""
REMOVED: Final = "a container was removed while it was used for grading"


@frozen
class Program:
    """What is started: `serve` as the case has it, the export in `folder`, the id or name of an image.

    `name` is the attempt's, and `run` tells the run from all others on this machine.
    """

    serve: JsonObject
    folder: Path
    image: str
    name: str
    run: str

    @property
    def container(self) -> str:
        """Its name, and that of its network: the same after a crash."""
        return f"planloop-bench-{digest(f'{self.run} {self.name}'.encode())[:12]}"

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.run}


@frozen
class Serving:
    """How it stands. `url` is empty when nobody answers; then `words` say why. `log` is what it wrote.

    `ref` is its container, empty when none was made."""

    words: str
    url: str = ""
    log: bytes = b""
    ref: str = ""


@asynccontextmanager
async def serving(engine: Engine, program: Program) -> AsyncIterator[Serving]:
    """The program, running and ready, while the block lasts; or why it is not. Raises EngineFailed."""
    start = await anyio.to_thread.run_sync(entry_of, program.folder, program.serve["run"])
    if start.argv is None:
        yield Serving(f"no-entry: there is nothing to start; looked for {', '.join(start.tried)}")
        return
    await _clear(engine, program)
    try:
        await engine.make_network(program.container, program.labels, is_internal=True)
        id_ = await engine.create(_creation(program, start.argv))
        await engine.start(id_)
        why = await _why_not_ready(engine, id_, program)
        shown = f"`{' '.join(start.argv)}`"
        if why:
            yield Serving(f"not-ready: {why}; started {shown}", log=await _log(engine, id_), ref=id_)
        else:
            yield Serving(f"{shown} answers", await _url(engine, id_, program), ref=id_)
    finally:
        with anyio.CancelScope(shield=True), suppress(EngineFailed):
            await _clear(engine, program)


async def is_killed(engine: Engine, ref: str, *, ends_itself: bool) -> bool:
    """Whether what grades was ended by others, and not for want of memory. Raises EngineFailed when it is not there.

    Only from outside can its first process be killed; what runs in it can make that end look the same. One that
    `ends_itself` is a program of whoever is graded; all others sleep, and every end of theirs is somebody's doing.
    """
    found = await engine.container(ref)
    if found is None:
        raise EngineFailed(Reason.NOT_FOUND, REMOVED)
    is_over = found.state in ("exited", "dead") and not found.is_out_of_memory
    return is_over and (found.exit_code in KILLED or not ends_itself)


async def sweep(engine: Engine, run: str) -> None:
    """Removes what an owner that died left of its grading: for one that has begun none. Raises EngineFailed."""
    for found in await engine.containers({LABEL: run}):
        await engine.remove(found.id)
    for network in await engine.networks({LABEL: run}):
        await engine.remove_network(network)


def _creation(program: Program, argv: tuple[str, ...]) -> Creation:
    return Creation(
        program.container,
        program.image,
        program.labels,
        cmd=argv,
        entrypoint=(),
        env={**ENV, "PORT": str(program.serve["port"]), "HOST": "0.0.0.0"},
        workdir=INSIDE,
        host_name=HOST_NAME,
        mounts=(Placed(INSIDE, host=str(program.folder)), Placed(HOME)),
        networks=(program.container,),
        bound=BOUND,
        is_read_only=True,
    )


async def _clear(engine: Engine, program: Program) -> None:
    """Also what an earlier grading of the same attempt left that was killed."""
    found = await engine.container(program.container)
    if found is not None:
        await engine.remove(found.id)
    if program.container in await engine.networks(program.labels):
        await engine.remove_network(program.container)


async def _url(engine: Engine, id_: str, program: Program) -> str:
    found = await engine.container(id_)
    return _url_of(found, program) if found is not None else ""


def _url_of(found: Found, program: Program) -> str:
    address = found.addresses.get(program.container, "")
    return f"http://{address}:{program.serve['port']}" if address else ""


async def _why_not_ready(engine: Engine, id_: str, program: Program) -> str:
    """Empty once it answers; else why it will not, at the latest when its time is over."""
    ready = program.serve["ready"]
    within_s = _seconds(ready.get("within", WITHIN_S))
    patience = Patience(within_s, anyio.current_time(), stalled_s())
    while not patience.is_over(anyio.current_time(), stalled_s()):
        found = await engine.container(id_)
        if found is None:
            raise EngineFailed(Reason.NOT_FOUND, REMOVED)
        if found.state in ("exited", "dead"):
            return await _end(engine, id_, found)
        url = _url_of(found, program)
        if url and await _answers(url, ready):
            return ""
        await anyio.sleep(PAUSE_S)
    return f"nothing answered on port {program.serve['port']} within {within_s:g} s"


def _seconds(raw: Json) -> float:
    if isinstance(raw, str):
        return durations.seconds(raw) or WITHIN_S
    return float(raw) if isinstance(raw, int | float) else WITHIN_S


async def _end(engine: Engine, id_: str, found: Found) -> str:
    if found.error:
        return f"it could not be started: {found.error}"
    lines = (await _log(engine, id_)).decode(errors="replace").strip().splitlines()
    last = f": {lines[-1].strip()[:200]}" if lines else ""
    return f"it ended with exit {found.exit_code}{last}"


async def _answers(url: str, ready: JsonObject) -> bool:
    """Whether something answers there, whatever it says."""
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


async def _log(engine: Engine, id_: str) -> bytes:
    out = bytearray()
    logs: AsyncGenerator[bytes, None] = engine.logs(id_, is_following=False)
    with suppress(EngineFailed):
        async with aclosing(logs) as pieces:
            async for piece in pieces:
                out += piece
                if len(out) > LOG_BYTES_MAX:
                    break
    return bytes(out[:LOG_BYTES_MAX])
