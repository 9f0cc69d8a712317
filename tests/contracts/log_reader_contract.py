"""What every reader of a log must do. A subclass says how records become a log that the reader opens.

Nothing here knows how a log is kept, so the same suite holds a reader of another database.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from planloop.reconciler.errors import StoreCorrupt, StoreFailed
from planloop.reconciler.store.log_reader import LogPosition, LogReader, RecordQuery, verified_entries
from tests.contracts.store_contract import made, status
from tests.product import RecordDraft, encode_text, record_to_json

DRAFTS = (
    made("task/a", "a", goal="x"),
    made("task/b", "b"),
    status("task/a", "a", state="running"),
    RecordDraft("message.sent", "human:ann", "agent/b", (), {"message": {"text": "about task/a"}}),
    status("task/b", "b", state="done"),
    status("task/a", "a", state="done"),
)


class LogReaderContract:
    """Subclass it as `Test…` with `write` and `reader`."""

    async def write(self, folder: Path, drafts: Sequence[RecordDraft], blob: bytes = b"") -> None:
        """Append `drafts` to the log in `folder`, after storing `blob` if it is not empty."""
        raise NotImplementedError

    def reader(self, folder: Path) -> LogReader:
        raise NotImplementedError

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def opened(self, folder: Path) -> LogReader:
        await self.write(folder, DRAFTS, b"content")
        return self.reader(folder)

    @pytest.mark.anyio
    async def test_without_a_log_every_read_fails_with_a_hint(self, tmp_path: Path) -> None:
        log = self.reader(tmp_path)
        for read in (log.last_rev, log.load, lambda: list(log.records(RecordQuery())), lambda: log.get_blob("0" * 64)):
            with pytest.raises(StoreFailed) as caught:
                read()
            assert caught.value.hint

    @pytest.mark.anyio
    async def test_records_are_selected_by_range_type_and_text_in_either_order(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:

            def revisions(query: RecordQuery) -> list[int]:
                return [entry.record.rev for entry in log.records(query)]

            assert revisions(RecordQuery()) == [1, 2, 3, 4, 5, 6]
            assert revisions(RecordQuery(after=2, before=5)) == [3, 4]
            assert revisions(RecordQuery(newest_first=True, limit=2)) == [6, 5]
            assert revisions(RecordQuery(types=frozenset({"message.sent", "object.created"}))) == [1, 2, 4]
            assert revisions(RecordQuery(containing=("task/a",))) == [1, 3, 4, 6]
            assert revisions(RecordQuery(containing=("task/a", "done"), newest_first=True)) == [6]
            assert revisions(RecordQuery(after=6)) == []
            assert log.last_rev() == 6

    @pytest.mark.anyio
    async def test_entries_have_the_record_its_json_and_its_position(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:
            entries = list(log.records(RecordQuery()))
            assert [entry.record.draft for entry in entries] == list(DRAFTS)
            assert [entry.line for entry in entries] == [encode_text(record_to_json(entry.record)) for entry in entries]
            assert log.follow(LogPosition(), 10) == entries
            assert log.lines(1, 2) == [(entry.record.rev, entry.line) for entry in entries[1:3]]

    @pytest.mark.anyio
    async def test_two_readings_of_one_log_can_be_interleaved(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:
            pairs = [(one.record.rev, log.last_rev(), next(log.records(RecordQuery()))) for one in
                     log.records(RecordQuery(limit=2))]  # fmt: skip
            assert [(first, last, other.record.rev) for first, last, other in pairs] == [(1, 6, 1), (2, 6, 1)]

    @pytest.mark.anyio
    async def test_following_continues_with_later_records(self, tmp_path: Path) -> None:
        await self.write(tmp_path, DRAFTS[:2])
        with closing(self.reader(tmp_path)) as log:
            loaded = log.load()
            assert (loaded.view.rev, loaded.position.rev, loaded.epoch) == (2, 2, 1)
            assert log.follow(loaded.position, 10) == []
            await self.write(tmp_path, DRAFTS[2:])
            page = log.follow(loaded.position, 3)
            assert [entry.record.rev for entry in page] == [3, 4, 5]
            assert [entry.record.rev for entry in log.follow(page[-1].position, 3)] == [6]
            assert log.load().log_id == loaded.log_id != ""

    @pytest.mark.anyio
    async def test_following_a_log_that_was_replaced_is_an_error(self, tmp_path: Path) -> None:
        await self.write(tmp_path / "one", DRAFTS)
        await self.write(tmp_path / "other", [made("task/c", "c"), *DRAFTS])
        with closing(self.reader(tmp_path / "one")) as one, closing(self.reader(tmp_path / "other")) as other:
            position = one.load().position
            with pytest.raises(StoreCorrupt):
                other.follow(position, 10)
            with pytest.raises(StoreCorrupt):
                one.follow(LogPosition(99, position.checksum), 10)
            assert one.load().log_id != other.load().log_id

    @pytest.mark.anyio
    async def test_views_of_the_past_are_the_fold_up_to_their_revision(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:
            for rev in (6, 3, 0, 5, 3):
                view = log.view_at(rev)
                assert view.rev == rev
                states = {one.address: one.state for one in view.everything()}
                wanted: dict[str, str] = {}
                for draft in DRAFTS[:rev]:
                    for change in draft.changes:
                        merge = getattr(change, "merge", {})
                        wanted[change.address] = merge.get("state", wanted.get(change.address, ""))
                assert {address: state or "" for address, state in states.items()} == wanted
            assert log.load().view.everything() == log.view_at(6).everything()

    @pytest.mark.anyio
    async def test_authors_of_a_type_are_listed_once(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:
            found = log.actors(frozenset({"object.updated", "message.sent"}))
            assert sorted(found) == ["controller:task", "human:ann"]
            assert list(log.actors(frozenset({"plan.patched"}))) == []

    @pytest.mark.anyio
    async def test_blobs_are_read_by_digest(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:
            digest = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
            assert log.get_blob(digest) == b"content"
            assert log.get_blob("0" * 64) is None

    @pytest.mark.anyio
    async def test_valid_log_verifies_and_replays_without_difference(self, tmp_path: Path) -> None:
        with closing(await self.opened(tmp_path)) as log:
            assert log.verify() == 6
            found = log.replay()
            assert (found.rev, found.object_count, found.different) == (6, 2, ())
            assert [one.record.rev for one in verified_entries(log)] == [1, 2, 3, 4, 5, 6]
            assert [one.record.rev for one in verified_entries(log, up_to=4)] == [1, 2, 3, 4]

    @pytest.mark.anyio
    async def test_a_closed_reader_opens_the_log_again_for_each_read(self, tmp_path: Path) -> None:
        log = await self.opened(tmp_path)
        log.close()
        assert log.last_rev() == 6
        log.close()
