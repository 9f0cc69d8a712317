"""Random failures in one run on a separate real engine; every container recovers from each of them.

`pytest --seed N` repeats a run; a failure names its seed and the preceding events. The set change tries fewer
of them, drawn from the rotation too.
"""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Final

import pytest
from docker.errors import NotFound

from tests import sets
from tests.e2e import container_harness
from tests.e2e.container_harness import IMAGE, ContainerHarness, OwnEngine
from tests.e2e.folder import Folder, Owner

FAULTS: Final = 60 if sets.is_nightly() else 7
ENDS_MAX: Final = 3  # Of one without an edit of it: each doubles the pause before the next start.
NEEDS: Final = {"db": "", "api": "needs: {db: healthy}", "web": "needs: [api]"}


def plan_text(turns: Mapping[str, int], pids: int) -> str:
    text = "plan: p\ncontainers:\n"
    for name, needs in NEEDS.items():
        rows = [f"image: {IMAGE}", "restart: always", f"limits: {{pids: {pids}}}", needs]
        rows += [f"env: {{NAME: {name}, TURN: '{turns[name]}'}}"]
        rows += ["health: {tcp: 8080, interval: 200ms, retries: 2}"]
        text += f"  {name}:\n" + "".join(f"    {row}\n" for row in rows if row)
    return text


@dataclass
class Run:
    """The plan with its owner and its engine, and what was done to them."""

    harness: ContainerHarness
    engine: OwnEngine
    random: Random
    stack: ExitStack
    owner: Owner | None = None
    turns: Counter[str] = field(default_factory=Counter)
    pids: int = 50
    ends: Counter[str] = field(default_factory=Counter)
    done: list[str] = field(default_factory=list)

    def apply(self) -> None:
        self.owner = self.stack.enter_context(self.harness.folder.killed("--yes", "p.yaml"))

    def until_owned(self) -> None:
        assert self.owner is not None
        self.harness.until_owned(self.owner)

    def one(self) -> str:
        return self.random.choice(list(NEEDS))

    def ended(self, *names: str) -> None:
        """They may be counted as having ended: also what is removed has ended a moment before."""
        self.ends.update(names)

    def edit(self, *names: str) -> None:
        """They are to be others from now on."""
        self.turns.update(names)
        for name in names:
            del self.ends[name]
        self.write()

    def worn(self) -> list[str]:
        """Those that have ended so often that they would come back slowly."""
        return [name for name, count in self.ends.items() if count >= ENDS_MAX]

    def write(self) -> None:
        self.harness.folder.write("p.yaml", plan_text(self.turns, self.pids))

    def is_as_wanted(self) -> bool:
        """Whether each has what the file says, and no other has been made in its place."""
        try:
            found = {name: self.harness.inspect(name) for name in NEEDS}
        except (KeyError, NotFound):  # Another is about to take the place of one.
            return False
        turns = [f"TURN={self.turns[name]}" in one["Config"]["Env"] for name, one in found.items()]
        return all(turns) and all(one["HostConfig"]["PidsLimit"] == self.pids for one in found.values())


def stop(run: Run) -> None:
    run.ended(name := run.one())
    run.harness.api.stop(run.harness.ref(name), timeout=1)


def kill(run: Run) -> None:
    run.ended(name := run.one())
    run.harness.api.kill(run.harness.ref(name))


def remove(run: Run) -> None:
    run.ended(name := run.one())
    run.harness.api.remove_container(run.harness.ref(name), force=True)


def remove_all(run: Run) -> None:
    run.ended(*NEEDS)
    for one in run.harness.containers().values():
        run.harness.api.remove_container(one["Id"], force=True)


def pause(run: Run) -> None:
    run.harness.api.pause(run.harness.ref(run.one()))


def make_unwell(run: Run) -> None:
    name = run.one()
    run.harness.said_inside(name, "rm", "-f", "/tmp/well")
    run.harness.until_states(**{name: "unhealthy"})
    run.harness.said_inside(name, "touch", "/tmp/well")


def edit(run: Run) -> None:
    run.edit(*run.worn() or [run.one()])


def edit_all(run: Run) -> None:
    run.edit(*NEEDS)


def limit(run: Run) -> None:
    run.pids += 1
    run.write()


def kill_owner(run: Run) -> None:
    assert run.owner is not None
    run.owner.process.send_signal(signal.SIGKILL)
    run.owner.process.wait()
    if run.random.random() < 0.5:
        remove(run)
    run.apply()


def restart_engine(run: Run) -> None:
    run.ended(*NEEDS)
    run.engine.stop()
    run.engine.start()
    for ref in run.harness.strangers:
        run.harness.api.start(ref)


ACTS: Final[dict[Callable[[Run], None], int]] = {
    stop: 3,
    kill: 4,
    remove: 4,
    remove_all: 2,
    pause: 3,
    make_unwell: 3,
    edit: 3,
    edit_all: 1,
    limit: 3,
    kill_owner: 4,
    restart_engine: 1,
}
"""What may happen, and how often beside the others."""

ENDS: Final = frozenset((stop, kill, remove, remove_all, kill_owner, restart_engine))
"""Events that may count as an end of a run."""


@pytest.fixture
def run(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> Iterator[Run]:
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-engine-"))
        engine = stack.enter_context(container_harness.own_engine(Path(place)))
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        harness = stack.enter_context(container_harness.harness(folder, engine.address, tmp_path))
        yield Run(harness, engine, Random(seed if sets.is_nightly() else f"{seed}/{sets.rotation()}"), stack)


@pytest.mark.engine
@pytest.mark.timeout(400)
def test_every_container_recovers_after_each_random_failure(run: Run, seed: int) -> None:
    run.write()
    run.apply()
    try:
        run.until_owned()
        run.harness.until_settled()
        for _ in range(FAULTS):
            act = run.random.choices(list(ACTS), list(ACTS.values()))[0]
            if act in ENDS and run.worn():
                act = edit
            run.done.append(act.__name__)
            act(run)
            run.until_owned()
            run.harness.until(lambda seen: run.harness.is_settled(seen) and run.is_as_wanted())
            run.harness.untouched()
            assert len(run.harness.networks()) == 1
        assert run.harness.folder.run("down").code == 0
        assert run.harness.left() == []
    except BaseException as error:
        error.add_note(f"--seed {seed}, rotation {sets.rotation()}, after {len(run.done)} events: {' '.join(run.done)}")
        raise
