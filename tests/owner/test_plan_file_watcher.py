"""What counts as a save, as editors really make them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream

from planloop.client import folder_events
from planloop.owner import plan_file_watcher
from planloop.owner.plan_file_sync import SavedBase, SavedBases, find_base
from planloop.owner.plan_file_watcher import FileChange, PlanFileWatcher, SavedFile, UnusableFile
from tests.rights import without_rights

pytestmark = pytest.mark.anyio
Saves = MemoryObjectReceiveStream[FileChange]


class Watched(Protocol):
    def __call__(self, path: Path, *used: Path) -> AbstractAsyncContextManager[Saves]: ...


@pytest.fixture(params=[folder_events.watch_folders, folder_events.watchfiles_events])
def watched(request: pytest.FixtureRequest) -> Watched:
    """A watched live file, by each mechanism that reports moves."""

    @asynccontextmanager
    async def watching(path: Path, *used: Path) -> AsyncIterator[Saves]:
        live = PlanFileWatcher(path, size_max=1 << 20, used=lambda: frozenset(used), tell_moves=request.param)
        live.start_from(path.read_bytes())
        send, receive = anyio.create_memory_object_stream[FileChange](10)
        async with anyio.create_task_group() as group, send, receive:
            group.start_soon(live.run, send.send)
            yield receive
            group.cancel_scope.cancel()

    return watching


async def next_of(saves: Saves) -> FileChange:
    with anyio.fail_after(45):
        return await saves.receive()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text("one")
    return path


async def test_a_write_in_place_is_a_save(watched: Watched, file: Path) -> None:
    async with watched(file) as saves:
        file.write_text("two")
        assert await next_of(saves) == SavedFile(b"two")


async def test_a_rename_over_the_file_is_a_save(watched: Watched, file: Path) -> None:
    async with watched(file) as saves:
        for text in ("two", "three"):  # Twice: the second inode is another one than the watch began with.
            beside = file.with_suffix(".swp")
            beside.write_text(text)
            beside.rename(file)
            assert await next_of(saves) == SavedFile(text.encode())


async def test_law_9_an_emptied_file_is_unusable_and_the_next_save_counts(watched: Watched, file: Path) -> None:
    async with watched(file) as saves:
        file.write_text("")
        assert await next_of(saves) == UnusableFile("p.yaml is empty")
        file.write_text("two")
        assert await next_of(saves) == SavedFile(b"two")


async def test_law_9_missing_file_is_unusable_only_after_a_while(watched: Watched, file: Path) -> None:
    async with watched(file) as saves:
        file.unlink()
        assert await next_of(saves) == UnusableFile("p.yaml is missing")


async def test_a_save_through_a_symlink_counts(
    watched: Watched, file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "link.yaml"
    link.symlink_to(file)
    async with watched(link) as saves:
        file.write_text("two")
        assert await next_of(saves) == SavedFile(b"two")


def swap(link: Path, target: str) -> None:
    """Points `link` elsewhere in one step."""
    beside = link.with_name("beside")
    beside.symlink_to(target)
    beside.rename(link)


@asynccontextmanager
async def busy(folder: Path) -> AsyncIterator[None]:
    """Something writes files in `folder` all the time."""

    async def writing() -> None:
        while True:
            (folder / "noise").write_text("x")
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(writing)
        yield
        group.cancel_scope.cancel()


SWAPS = {
    "the link to the file": ("p.yaml", "v1/p.yaml", "v2/p.yaml", "p.yaml"),
    "a link to its folder that the link leads through": ("..data", "v1", "v2", "p.yaml"),
    "a link to its folder in the path that was given": ("current", "v1", "v2", "current/p.yaml"),
}


@pytest.mark.parametrize("name", SWAPS)
async def test_a_swapped_link_on_the_way_is_a_save_also_in_a_busy_folder(
    watched: Watched, tmp_path: Path, name: str
) -> None:
    link, first, second, path = SWAPS[name]
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "p.yaml").write_text(version)
    (tmp_path / link).symlink_to(first)
    if link == "..data":
        (tmp_path / path).symlink_to("..data/p.yaml")
    async with watched(tmp_path / path) as saves, busy(tmp_path):
        swap(tmp_path / link, second)
        with anyio.fail_after(4):  # Less than LOOK_ANYWAY_S: an event reports it, not a poll.
            assert await saves.receive() == SavedFile(b"v2")
        (tmp_path / "v2/p.yaml").write_text("v2, edited")
        with anyio.fail_after(4):
            assert await saves.receive() == SavedFile(b"v2, edited")


async def test_a_folder_that_is_replaced_as_a_whole_is_a_save(watched: Watched, tmp_path: Path) -> None:
    for version in ("conf", "new"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "p.yaml").write_text(version)
    async with watched(tmp_path / "conf/p.yaml") as saves:
        (tmp_path / "conf").rename(tmp_path / "old")
        (tmp_path / "new").rename(tmp_path / "conf")
        assert await next_of(saves) == SavedFile(b"new")
        (tmp_path / "conf/p.yaml").write_text("edited")
        assert await next_of(saves) == SavedFile(b"edited")


def test_a_folder_that_cannot_be_entered_is_watched_as_if_it_had_no_links(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    with without_rights():
        assert plan_file_watcher._steps(tmp_path / "shut" / "plan.yaml") == {tmp_path / "shut" / "plan.yaml"}


async def test_a_symlink_to_itself_is_a_missing_file(watched: Watched, file: Path) -> None:
    async with watched(file) as saves:
        file.unlink()
        file.symlink_to(file)
        assert await next_of(saves) == UnusableFile("p.yaml is missing")
        file.unlink()
        file.write_text("two")
        assert await next_of(saves) == SavedFile(b"two")


async def test_saving_a_file_that_the_plan_uses_is_a_save_of_the_plan(
    watched: Watched, file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    prompt = folder / "worker.md"
    prompt.write_text("be brief")
    async with watched(file, prompt) as saves:
        prompt.write_text("be thorough")
        assert await next_of(saves) == SavedFile(b"one")


def test_an_editor_that_had_not_seen_our_write_is_taken_as_editing_what_it_saw() -> None:
    old = SavedBase(b"goal: x\n", {"goal": "x"})
    written = SavedBase(b"goal: x\nnotes: by an agent\n", {"goal": "x", "notes": "by an agent"})
    bases = SavedBases()
    bases.saved(old)
    bases.written(written)

    stale = b"goal: y\n"

    assert bases.nearest(stale) == old
    assert find_base(bases.nearest(stale), {"goal": "y"}, written.document) == {"goal": "y", "notes": "by an agent"}


def test_returning_to_an_earlier_save_is_a_deliberate_undo() -> None:
    first, second = SavedBase(b"goal: x\n", {"goal": "x"}), SavedBase(b"goal: y\n", {"goal": "y"})
    bases = SavedBases()
    bases.saved(first)
    bases.saved(second)

    assert find_base(bases.nearest(first.content), first.document, second.document) == first.document


def test_an_editor_that_had_seen_it_removes_what_it_removes() -> None:
    written = SavedBase(b"a\nb\nc\n", {"goal": "x", "notes": "n"})

    assert find_base(written, {"goal": "x"}, written.document) == {"goal": "x"}
