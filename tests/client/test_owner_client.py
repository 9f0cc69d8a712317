"""Finding a plan's state, and reaching its owner over the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from planloop.cli import preview
from planloop.client import owner_client, plan_paths
from planloop.client.owner_client import OwnerClient, OwnerGone, OwnerUnanswered
from planloop.client.plan_client import PlanClient
from planloop.client.plan_paths import PlanPaths, plan_label
from planloop.reconciler.store import state_files
from planloop.server.edit import plan_text
from planloop.server.owner_listener import serve_owner
from tests.golden_text import said
from tests.product import CommandError, Json, JsonObject, Record, RecordDraft, sha256_hex
from tests.product import CommandExit as Exit
from tests.rights import without_rights


class EchoDesk:
    """Answers with what it was asked."""

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        if path == "objects/nothing":
            raise CommandError(Exit.NOT_FOUND, "no such thing", "look elsewhere")
        return {"path": path, "query": dict(query)}

    async def post(self, path: str, body: JsonObject) -> Json:
        if path == "stop":
            raise ZeroDivisionError("by us")
        return {"path": path, "body": body}

    async def watch(self, after: int) -> AsyncIterator[Record]:
        for rev in range(after + 1, after + 4):
            yield Record(rev, 1.0, 1, RecordDraft("plan.patched", "human:cli", "plan/p"))

    async def hear(self) -> AsyncIterator[JsonObject]:
        for text in ("a", "b"):
            yield {"agent": "agent/.", "turn": 1, "text": text}


@pytest.mark.anyio
async def test_client_gets_the_owners_answer(tmp_path: Path) -> None:
    client = OwnerClient(tmp_path)
    async with serve_owner(EchoDesk, tmp_path):
        got = await anyio.to_thread.run_sync(lambda: client.get("objects/task/ü b", at=7))
        several = await anyio.to_thread.run_sync(lambda: client.get("log", type="a,b&c"))
        posted = await anyio.to_thread.run_sync(lambda: client.post("reject", {"address": "approval/ü"}))

    assert got == {"path": "objects/task/ü b", "query": {"at": "7"}}
    assert several == {"path": "log", "query": {"type": "a,b&c"}}
    assert posted == {"path": "reject", "body": {"address": "approval/ü", "by": "cli"}}


@pytest.mark.anyio
async def test_endings_cross_the_socket_with_code_and_fix(tmp_path: Path) -> None:
    client = OwnerClient(tmp_path)
    async with serve_owner(EchoDesk, tmp_path):
        with pytest.raises(CommandError) as missing:
            await anyio.to_thread.run_sync(lambda: client.get("objects/nothing"))
        with pytest.raises(CommandError) as broken:
            await anyio.to_thread.run_sync(lambda: client.post("stop", {}))

    assert (missing.value.exit, missing.value.hint) == (Exit.NOT_FOUND, "look elsewhere")
    assert broken.value.exit is Exit.BUG


@asynccontextmanager
async def dying(folder: Path) -> AsyncIterator[OwnerClient]:
    """The client of an owner that ends after it has read a request, before it answers."""

    async def die(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()
        await stream.aclose()

    listener = await anyio.create_unix_listener(state_files.socket_file(folder))
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, die)
        yield OwnerClient(folder)
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_change_with_an_unknown_outcome_is_distinguished_from_a_refused_one(tmp_path: Path) -> None:
    async with dying(tmp_path) as client:
        with pytest.raises(OwnerUnanswered):
            await anyio.to_thread.run_sync(lambda: client.post("guest/say", {}))


@pytest.mark.anyio
async def test_a_preview_that_the_owner_died_in_may_be_had_from_the_log(tmp_path: Path) -> None:
    """A child that the killed owner had just started keeps its socket open until it runs its program."""
    access = PlanClient(PlanPaths("demo", tmp_path))
    async with dying(tmp_path) as client:
        for ask in (client.ask, access.ask):
            with pytest.raises(OwnerGone):
                await anyio.to_thread.run_sync(ask, "diff", {})


@pytest.mark.anyio
async def test_a_saved_preview_and_a_write_of_the_plan_file_work_though_the_owner_dies(tmp_path: Path) -> None:
    file = tmp_path / "demo.plan.yaml"
    file.write_text("plan: demo\ntasks: {t: {run: make}}\n")
    place = plan_paths.paths_of_file(file, "demo")
    place.folder.mkdir(parents=True)
    place.note_file(file)
    shown = preview.preview_path(file)
    async with dying(place.folder):
        kept = await anyio.to_thread.run_sync(preview.saved_form, shown)
        written = await anyio.to_thread.run_sync(plan_text.write_file, place, sha256_hex(file.read_bytes()), None)

    assert [one["address"] for one in kept["differences"]] == ["task/.", "task/t"]
    assert written.ops == ()


@pytest.mark.anyio
async def test_the_stream_gives_every_record_once_and_ends(tmp_path: Path) -> None:
    client = OwnerClient(tmp_path)
    async with serve_owner(EchoDesk, tmp_path):
        found = await anyio.to_thread.run_sync(lambda: [raw["rev"] for raw in client.stream("watch", after=7)])

    assert found == [8, 9, 10]


@pytest.mark.anyio
async def test_only_the_user_may_connect_and_nothing_is_left_behind(tmp_path: Path) -> None:
    async with serve_owner(EchoDesk, tmp_path):
        assert state_files.socket_file(tmp_path).stat().st_mode & 0o777 == 0o600

    assert not state_files.socket_file(tmp_path).exists()
    with pytest.raises(OwnerGone):
        OwnerClient(tmp_path).get("status")


def test_path_too_long_for_a_socket_works_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20) / ("longer" * 20)
    folder.mkdir(parents=True)

    with without_rights():
        listener = owner_client.listen_on_socket(folder)
        try:
            owner_client.connect_socket(folder).close()
        finally:
            listener.close()
            owner_client.remove_socket(folder, owner_client.socket_identity(folder))


def with_state(root: Path, *names: str) -> None:
    for name in names:
        folder = root / state_files.STATE / name
        folder.mkdir(parents=True)
        state_files.log_file(folder).touch()


def test_only_plan_in_the_folder_is_the_default(tmp_path: Path) -> None:
    with_state(tmp_path, "one")
    (tmp_path / state_files.STATE / "schema.json").touch()

    assert plan_paths.find_plan(None, tmp_path).name == "one"


def test_several_plans_are_asked_about_and_none_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as none:
        plan_paths.find_plan(None, tmp_path)
    with_state(tmp_path, "one", "two")
    with pytest.raises(CommandError) as several:
        plan_paths.find_plan(None, tmp_path)

    assert none.value.exit is Exit.NOT_FOUND
    assert several.value.exit is Exit.USAGE
    said(several.value.hint)


def test_a_plan_is_found_by_the_file_that_was_applied(tmp_path: Path) -> None:
    with_state(tmp_path, "one", "two")
    file = tmp_path / "second.plan.yaml"
    file.touch()
    plan_paths.paths_of_file(file, "two").note_file(file)

    assert plan_paths.find_plan("second.plan.yaml", tmp_path).name == "two"


def test_plan_has_one_mark_for_every_spelling_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")

    found = {plan_label(PlanPaths("p", tmp_path / way / ".plan/p")) for way in ("a", "b", "b/../a")}

    assert len(found) == 1
    assert plan_label(PlanPaths("p", tmp_path / ".plan/p")) not in found


@pytest.mark.anyio
async def test_leaving_owner_removes_its_own_socket_only(tmp_path: Path) -> None:
    async with serve_owner(EchoDesk, tmp_path):
        assert state_files.socket_file(tmp_path).is_socket()
    assert not state_files.socket_file(tmp_path).exists()

    async with serve_owner(EchoDesk, tmp_path):
        state_files.socket_file(tmp_path).unlink()
        next_owner = owner_client.listen_on_socket(tmp_path)  # Of a plan whose state was removed meanwhile.
    with next_owner:
        assert state_files.socket_file(tmp_path).is_socket()
