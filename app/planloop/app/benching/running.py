"""One run: its plan is owned by this process until it is over, and its events are written as its log grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import anyio

from planloop.app import compiling, crash, parting, wiring
from planloop.app.benching import folder as files
from planloop.app.benching.screen import BenchScreen
from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.app.hosting import Leaving, Owning, Wish
from planloop.app.places import Place, of_file
from planloop.benchmarks.compiling.compiled import Compiled
from planloop.benchmarks.events.projecting import Projection
from planloop.benchmarks.events.reading import HINT, BadEvents
from planloop.benchmarks.events.writing import EventFile, EventsTaken
from planloop.benchmarks.planning import plan_document
from planloop.cli.applying import leave_at_once
from planloop.reconciler.editing.filing import FileSave
from planloop.reconciler.errors import AGAIN, EngineError, NotOwner
from planloop.reconciler.storing.store import View
from planloop.schemas.case import CaseState, Verdict, case_from_json
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import SUITE_BYTES_MAX

PAGE: Final = 1000
LOOK_S: Final = 0.05  # Between two looks at what became durable.


@frozen
class Going:
    """What goes on in a folder: `attempts` are all entries with the number of the try that is wanted of each.

    `command` is what goes on with it when it is left.
    """

    folder: Path
    compiled: Compiled
    attempts: Mapping[str, int]
    parallel: int
    command: str


def attempts_of(compiled: Compiled, view: View | None) -> dict[str, int]:
    """The try that each entry is at: one with a verdict on what is asked now keeps it, all others get another."""
    found: dict[str, int] = dict.fromkeys(compiled.entries, 1)
    for case in view.list("case") if view is not None else ():
        spec = case_from_json(case.spec)
        if spec.entry not in found or spec.attempt < found[spec.entry]:
            continue
        is_decided = case.state == CaseState.ENDED and Verdict(case.status["verdict"]).is_decided
        is_kept = is_decided and spec.key == compiled.entries[spec.entry].key
        found[spec.entry] = spec.attempt + (0 if is_kept else 1)
    return found


def run(going: Going, screen: BenchScreen) -> Leaving:
    """Runs the entries until all have ended. Raises Halt: somebody else runs them, what is there is broken, no room."""
    try:
        return _owned(going, screen)
    except (EngineError, OSError, BaseExceptionGroup) as error:
        fault = crash.explained(error)
        if fault is None:
            raise
        raise Halt(fault.exit, fault.summary, _cure(fault.hint, going.command)) from error


def _cure(hint: str, command: str) -> str:
    """Nobody gives the same command again: a run that has begun is gone on with by another."""
    named = hint.replace(AGAIN, f"run `{command}`")
    return named if named != hint else f"{hint}\n{command} goes on from here"


def _owned(going: Going, screen: BenchScreen) -> Leaving:
    document = plan_document(going.compiled, going.attempts, parallel=going.parallel)
    path = files.write_plan(going.folder, document)
    file = compiling.required(path, size_max=SUITE_BYTES_MAX, is_run=True)
    files.lay_out(going.folder, going.compiled, going.attempts)
    save = FileSave(path.name, file.content, file.document, is_approved=True, checked=file.compiled)
    place = of_file(path, file.name)
    try:
        return anyio.run(_run, place, Wish(file, save, SUITE_BYTES_MAX), going, screen)
    except NotOwner:
        hint = f"plan tree --plan {path} shows it"
        raise Halt(Exit.CONFLICT, f"another process runs {going.folder}", hint) from None
    except EventsTaken:
        raise Halt(Exit.CONFLICT, f"another process writes the events of {going.folder}") from None
    except BadEvents as error:
        raise Halt(Exit.FAILED, f"{going.folder}: {error}", HINT) from None


async def _run(place: Place, wish: Wish, going: Going, screen: BenchScreen) -> Leaving:
    async with wiring.opened(place) as core:
        await parting.sweep_grading(core)
        projection = Projection(going.compiled, going.folder.name)
        with EventFile(going.folder, projection) as events:
            follower = _Follower(core, events, screen)
            await follower.catch_up()  # What is there already is looked at before anything new is.

            def leave(how: Leaving) -> NoReturn:
                del how
                leave_at_once(core.store.view, str(going.folder), going.command)

            async with anyio.create_task_group() as group:
                group.start_soon(follower.follow)
                leaving = await Owning(core, wish, screen, leave).run()
                group.cancel_scope.cancel()
            await follower.finish()
        return leaving


class _Follower:
    """Writes the events of what becomes durable in the log."""

    def __init__(self, core: Core, events: EventFile, screen: BenchScreen) -> None:
        self._store = core.store
        self._events = events
        self._screen = screen
        self._rev = 0

    async def follow(self) -> None:
        """Goes on until it is cancelled."""
        while True:
            await self.catch_up()
            await anyio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Writes what is left."""
        await self._store.flush(self._store.view.rev)
        await self.catch_up()

    async def catch_up(self) -> None:
        """Writes what became durable since. Raises BadEvents, OSError."""
        while records := await self._store.log(self._rev, PAGE):
            self._rev = records[-1].rev
            self._screen.events(self._events.note(records))
