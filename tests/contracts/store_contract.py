"""What every store must do. A subclass says how one is opened; see `test_sqlite_store.py`.

Nothing here knows how a store keeps its log, so the same suite holds a store on another database.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planloop.reconciler.errors import StoreFailed, WriteConflict
from planloop.reconciler.store.store import Store, View
from planloop.schemas import limits
from tests import sets
from tests.contracts.drafts import ADDRESSES, Model, Recipe, writes
from tests.product import (
    Drop,
    JsonObject,
    Mark,
    PatchFailed,
    PatchOp,
    PatchSpec,
    Put,
    Record,
    RecordDraft,
    SetStatus,
    Uid,
    canonical_bytes,
)

UID = Uid("u1")


def made(address: str = "task/a", uid: str = UID, **spec: object) -> RecordDraft:
    return RecordDraft("object.created", "human:cli", address, (Put(address, Uid(uid), dict(spec)),))


def status(address: str = "task/a", uid: str = UID, **merge: object) -> RecordDraft:
    return RecordDraft("object.updated", "controller:task", address, (SetStatus(address, Uid(uid), dict(merge)),))


def printed(view: View) -> list[JsonObject]:
    kinds = sorted({address.partition("/")[0] for address in ADDRESSES})
    return [one.to_json() for kind in kinds for one in view.list(kind)]


class StoreContract:
    """Subclass it as `Test…` with `opened`, and with `backend` if not asyncio."""

    backend = "asyncio"

    def opened(self, folder: Path, *, read_only: bool = False) -> AbstractAsyncContextManager[Store]:
        raise NotImplementedError

    @pytest.fixture
    def anyio_backend(self) -> str:
        return self.backend

    # Writing and reading.

    @pytest.mark.anyio
    async def test_revisions_count_from_one_without_gaps(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            assert store.view.rev == store.durable_rev == 0
            assert [await store.append(made()), await store.append(status(n=1))] == [1, 2]
            assert store.view.rev == store.durable_rev == 2

    @pytest.mark.anyio
    async def test_proposal_is_visible_immediately_and_durable_after_the_flush(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            rev = store.propose(made(goal="x"))
            seen = store.view.get("task/a")
            assert seen is not None
            assert seen.spec == {"goal": "x"}
            assert store.durable_rev == 0
            assert await store.log(0, 10) == []
            await store.flush(rev)
            assert store.durable_rev == 1
            assert [record.rev for record in await store.log(0, 10)] == [1]

    @pytest.mark.anyio
    async def test_flushing_the_last_revision_flushes_those_before_it(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            revs = [store.propose(made(uid=f"u{n}")) for n in range(5)]
            await store.flush(revs[-1])
            assert store.durable_rev == 5
            await store.flush(revs[0])

    @pytest.mark.anyio
    async def test_flushing_what_was_never_proposed_is_a_mistake_of_the_caller(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            with pytest.raises(ValueError, match="never proposed"):
                await store.flush(7)

    @pytest.mark.anyio
    async def test_log_returns_the_record_as_it_was_written(self, tmp_path: Path) -> None:
        draft = RecordDraft(
            "plan.patched",
            "agent:frontend",
            "plan/p",
            (
                Put("plan/p", UID, {"tasks": {}}, ("task/a",), "task/b", ("plan",)),
                PatchSpec("plan/p", (PatchOp("add", ("tasks", "a/b~"), {"goal": "ä \u2028"}),)),
                SetStatus("plan/p", UID, {"gone": None}),
                Mark("plan/p", UID, deleting=True),
                Drop("task/c", UID),
            ),
            {"verdicts": [1, 2.5, None, True]},
            ("ab",),
            0,
        )
        async with self.opened(tmp_path) as store:
            await store.append(draft)
        async with self.opened(tmp_path) as store:
            [record] = await store.log(0, 10)
        assert record.draft == draft

    @pytest.mark.anyio
    async def test_the_log_is_read_in_pages(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for n in range(10):
                store.propose(made(uid=f"u{n}"))
            await store.flush(10)
            assert [record.rev for record in await store.log(3, 4)] == [4, 5, 6, 7]
            assert await store.log(10, 4) == []

    @pytest.mark.anyio
    async def test_a_type_outside_the_vocabulary_is_refused(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            with pytest.raises(ValueError, match=r"made\.up"):
                store.propose(RecordDraft("made.up", "human:cli", "task/a"))
            assert store.view.rev == 0

    @pytest.mark.anyio
    @pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\ud800", b"x"])
    async def test_a_value_that_is_not_json_is_refused_and_changes_nothing(self, tmp_path: Path, value: object) -> None:
        async with self.opened(tmp_path) as store:
            with pytest.raises((ValueError, TypeError)):
                await store.append(made(bad=value))
            assert store.view.get("task/a") is None
            assert await store.append(made(good=1)) == 1

    @pytest.mark.anyio
    async def test_a_patch_that_does_not_fit_changes_nothing(self, tmp_path: Path) -> None:
        bad = PatchSpec("plan/p", (PatchOp("remove", ("nowhere",)),))
        async with self.opened(tmp_path) as store:
            await store.append(made("plan/p", "p1"))
            with pytest.raises(PatchFailed):
                store.propose(RecordDraft("plan.patched", "human:cli", "plan/p", (Put("task/a", UID, {}), bad)))
            assert store.view.get("task/a") is None
            assert store.view.list("task") == []
            assert store.view.rev == 1
            assert await store.append(made()) == 2

    # Expectations and fencing.

    @pytest.mark.anyio
    async def test_a_writer_that_read_an_older_revision_gets_a_conflict(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.append(made())
            await store.append(status(n=1), {"task/a": 1})
            with pytest.raises(WriteConflict) as caught:
                await store.append(status(n=2), {"task/a": 1})
            assert (caught.value.address, caught.value.expected, caught.value.actual) == ("task/a", 1, 2)
            with pytest.raises(WriteConflict):
                store.propose(made(), {"task/a": None})
            with pytest.raises(WriteConflict):
                store.propose(made("task/b"), {"task/b": 1})
            assert await store.append(made("task/b"), {"task/b": None, "task/a": 2}) == 3

    @pytest.mark.anyio
    async def test_law_7_a_write_that_names_an_old_uid_is_kept_in_the_log_and_changes_nothing(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as store:
            await store.append(made(uid="old"))
            await store.append(made(uid="new"))
            before = printed(store.view)
            late: Sequence[RecordDraft] = (
                status(uid="old", state="done"),
                RecordDraft("object.deleted", "controller:task", "task/a", (Drop("task/a", Uid("old")),)),
                RecordDraft(
                    "object.updated", "controller:task", "task/a", (Mark("task/a", Uid("old"), deleting=True),)
                ),
            )
            for draft in late:
                await store.append(draft)
            assert printed(store.view) == before
            assert len(await store.log(0, 10)) == 5

    @settings(max_examples=sets.examples(40, 15), suppress_health_check=list(HealthCheck))
    @given(batches=writes, reopen_at=st.sets(st.integers(0, 11), max_size=3))
    def test_law_1_any_writes_fold_as_the_model_does_and_survive_reopening(
        self, batches: list[list[Recipe]], reopen_at: set[int]
    ) -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            anyio.run(self._write_all, folder, batches, reopen_at, backend=self.backend)
        finally:
            shutil.rmtree(folder)

    async def _write_all(self, folder: Path, batches: list[list[Recipe]], reopen_at: set[int]) -> None:
        model, done = Model(), 0
        while done < len(batches) or done == 0:
            async with self.opened(folder) as store:
                assert canonical_bytes(printed(store.view)) == canonical_bytes(_printed_model(model))
                for index in range(done, len(batches)):
                    await _write(store, model, batches[index])
                    done = index + 1
                    if index in reopen_at:
                        break
                assert canonical_bytes(printed(store.view)) == canonical_bytes(_printed_model(model))
                _check_indexes(store.view)
            if not batches:
                break
        async with self.opened(folder, read_only=True) as store:
            assert canonical_bytes(printed(store.view)) == canonical_bytes(_printed_model(model))
            _check_indexes(store.view)

    # The view.

    @pytest.mark.anyio
    async def test_the_view_finds_by_kind_by_owner_and_by_reference(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            puts = (
                Put("task/b", Uid("b"), {}, ("task/a", "agent/b"), "task/a"),
                Put("task/a", Uid("a"), {}, ("task/b",)),
                Put("agent/b", Uid("x"), {}, ("task/b",), "task/b"),
            )
            await store.append(RecordDraft("plan.patched", "human:cli", "plan/p", puts))
            view = store.view
            assert [one.address for one in view.list("task")] == ["task/a", "task/b"]
            assert [one.address for one in view.owned_by("task/a")] == ["task/b"]
            assert list(view.referrers("task/b")) == ["agent/b", "task/a"]
            await store.append(RecordDraft("object.deleted", "controller:x", "task/b", (Drop("task/b", Uid("b")),)))
            assert view.owned_by("task/a") == []
            assert list(view.referrers("task/a")) == []
            assert list(view.referrers("task/b")) == ["agent/b", "task/a"]

    @pytest.mark.anyio
    async def test_listeners_hear_each_fold_with_what_it_changed(self, tmp_path: Path) -> None:
        heard: list[tuple[int, list[str]]] = []
        async with self.opened(tmp_path) as store:
            store.on_change(lambda record, changed: heard.append((record.rev, list(changed))))
            store.propose(made())
            assert heard == [(1, ["task/a"])]
            store.propose(status(uid="other"))
            assert heard[1:] == [(2, [])]

    # Watching.

    @pytest.mark.anyio
    async def test_watchers_see_every_revision_once_and_in_order_with_eight_writers(self, tmp_path: Path) -> None:
        writers, each = 8, 40
        seen: list[list[int]] = [[], [], []]

        async def write(store: Store, name: str) -> None:
            for n in range(each):
                await store.append(made(f"task/{name}", f"{name}{n}"))

        async def watch(store: Store, into: list[int], after: int) -> None:
            async for record in store.watch(after):
                into.append(record.rev)
                if record.rev == writers * each:
                    return

        async with self.opened(tmp_path) as store:
            with anyio.fail_after(45):
                async with anyio.create_task_group() as group:
                    group.start_soon(watch, store, seen[0], 0)
                    for n in range(writers):
                        group.start_soon(write, store, f"w{n}")
                    group.start_soon(watch, store, seen[1], 100)
                await watch(store, seen[2], 0)
        everything = list(range(1, writers * each + 1))
        assert seen == [everything, everything[100:], everything]

    @pytest.mark.anyio
    async def test_a_watcher_never_sees_what_is_not_durable(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store, anyio.create_task_group() as group:

            async def check() -> None:
                async for record in store.watch(0):
                    assert record.rev <= store.durable_rev
                    if record.rev == 20:
                        return

            group.start_soon(check)
            for n in range(20):
                store.propose(made(uid=f"u{n}"))
            await store.flush(20)

    @pytest.mark.anyio
    async def test_a_watcher_far_behind_reads_on_from_the_log(self, tmp_path: Path) -> None:
        count = 1_500
        async with self.opened(tmp_path) as store:
            for n in range(count):
                store.propose(made(uid=f"u{n}"))
            await store.flush(count)
            assert [record.rev for record in await _watched(store, 0, count)] == list(range(1, count + 1))

    @pytest.mark.anyio
    async def test_watching_ends_when_the_store_closes(self, tmp_path: Path) -> None:
        seen: list[int] = []

        async def watch(store: Store) -> None:
            async for record in store.watch(0):
                seen.append(record.rev)

        with anyio.fail_after(45):
            async with anyio.create_task_group() as group, self.opened(tmp_path) as store:
                await store.append(made())
                group.start_soon(watch, store)
                await anyio.wait_all_tasks_blocked()
        assert seen == [1]

    # Blobs.

    @pytest.mark.anyio
    @pytest.mark.parametrize("size", [0, 5, 300_000])
    async def test_blob_is_readable_immediately_and_after_reopening(self, tmp_path: Path, size: int) -> None:
        content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        async with self.opened(tmp_path) as store:
            digest = store.put_blob(content)
            assert store.get_blob(digest) == content
            assert store.put_blob(content) == digest
            await store.append(RecordDraft("check.ran", "controller:task", "task/a", (), {}, (digest,)))
            assert store.get_blob(digest) == content
        async with self.opened(tmp_path, read_only=True) as store:
            assert store.get_blob(digest) == content
            assert store.get_blob("0" * 64) is None

    # Opening and closing.

    @pytest.mark.anyio
    async def test_proposed_records_are_durable_when_the_store_has_closed(self, tmp_path: Path) -> None:
        count = 2 * limits.BATCH_RECORDS_MAX + 1
        async with self.opened(tmp_path) as store:
            for _ in range(count):
                store.propose(made(goal="x"))
        async with self.opened(tmp_path) as store:
            assert store.durable_rev == count
            assert [record.rev for record in await store.log(0, count)] == list(range(1, count + 1))

    @pytest.mark.anyio
    async def test_a_closed_store_refuses_writes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            pass
        with pytest.raises(StoreFailed):
            store.propose(made())

    @pytest.mark.anyio
    async def test_a_store_opened_for_reading_refuses_writes(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.append(made())
        async with self.opened(tmp_path, read_only=True) as store:
            with pytest.raises(StoreFailed):
                store.propose(status(n=1))
            with pytest.raises(StoreFailed):
                await store.append(status(n=1))
            assert store.get_blob(store.put_blob(b"x")) is None, "a preview names blobs and stores none"
            assert store.view.rev == 1

    @pytest.mark.anyio
    async def test_reading_works_during_a_write(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.append(made(goal="x"))
            async with self.opened(tmp_path, read_only=True) as reader:
                assert printed(reader.view) == printed(store.view)
                await store.append(status(state="done"))
                assert [record.rev for record in await reader.log(0, 10)] == [1, 2]


async def _write(store: Store, model: Model, recipe_list: list[Recipe]) -> None:
    draft, is_sound = model.write(recipe_list)
    if is_sound:
        assert await store.append(draft) == model.rev
        return
    with pytest.raises(PatchFailed):
        store.propose(draft)


async def _watched(store: Store, after: int, up_to: int) -> list[Record]:
    seen = []
    async for record in store.watch(after):
        seen.append(record)
        if record.rev == up_to:
            break
    return seen


def _printed_model(model: Model) -> list[JsonObject]:
    order = sorted(model.objects, key=lambda address: (address.partition("/")[0], address))
    return [model.objects[address] for address in order]


def _check_indexes(view: View) -> None:
    every = [one for kind in {address.partition("/")[0] for address in ADDRESSES} for one in view.list(kind)]
    for address in ADDRESSES:
        assert [one.address for one in view.owned_by(address)] == sorted(
            one.address for one in every if one.owner == address
        )
        assert list(view.referrers(address)) == sorted(one.address for one in every if address in one.refs)
