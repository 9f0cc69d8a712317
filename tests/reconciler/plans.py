"""A real store with a gate before it, and a clock and ids that a test can foresee."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas import canonical_json, json_pointer
from tests.product import (
    HUMAN_CLI,
    Author,
    Change,
    Json,
    JsonObject,
    OpName,
    Patch,
    PatchOp,
    PatchVerdict,
    RecordDraft,
    SetStatus,
)
from tests.reconciler import small_language


@dataclass(slots=True)
class SetClock:
    """A clock that advances only when a test moves it."""

    at: float = 1_000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass(slots=True)
class CountedIds:
    """Ids in the order of minting: 000000000001, ….."""

    minted: int = 0

    def mint(self) -> str:
        self.minted += 1
        return f"{self.minted:012x}"


@dataclass(slots=True)
class Plan:
    """A plan called `p` on a real store, with what tests ask of it."""

    store: SqliteStore
    gate: PlanGate
    clock: SetClock = field(default_factory=SetClock)

    @property
    def document(self) -> JsonObject:
        return self.gate.present.document

    @property
    def rev(self) -> int:
        return self.store.view.rev

    async def save(
        self, document: JsonObject, *, targets: tuple[str, ...] = (), is_approved: bool = False
    ) -> PatchVerdict:
        return await self.gate.submit_file(save_of(document, targets=targets, is_approved=is_approved))

    async def patch(
        self, *ops: PatchOp, by: Author = HUMAN_CLI, base: int | None = None, reason: str = ""
    ) -> PatchVerdict:
        return await self.gate.submit(Patch(by, ops, self.rev if base is None else base, reason))

    async def status(self, address: str, merge: JsonObject) -> None:
        """What a controller would have written."""
        found = self.store.view.get(address)
        assert found is not None, address
        await self.write(SetStatus(address, found.uid, merge))

    async def write(self, *changes: Change) -> None:
        await self.store.append(RecordDraft("object.updated", "controller:task", "plan/p", changes))


@asynccontextmanager
async def opened(folder: Path, language: PlanLanguage | None = None) -> AsyncIterator[Plan]:
    """The plan in `folder`, empty the first time. Plans are in the small language unless another is given."""
    clock = SetClock()
    async with SqliteStore.open(folder, clock=clock, epoch=1, inline=True) as store:
        gate = PlanGate(
            store,
            "p",
            ids=CountedIds(store.view.rev * 1000),
            clock=clock,
            language=language or small_language.language(),
        )
        yield Plan(store, gate, clock)


def save_of(document: JsonObject, *, targets: tuple[str, ...] = (), is_approved: bool = False) -> FileSave:
    """A file whose bytes are the document's JSON."""
    return FileSave("p.yaml", canonical_json.encode(document), document, targets, is_approved=is_approved)


def op(name: OpName, path: str, value: Json = None, source: str = "") -> PatchOp:
    """`op("add", "/tasks/a", {...})`."""
    return PatchOp(name, json_pointer.parse_pointer(path), value, json_pointer.parse_pointer(source))


def agent(path: str) -> Author:
    """The agent of the task at `path`, `.` for the root's."""
    return Author("agent", path)
