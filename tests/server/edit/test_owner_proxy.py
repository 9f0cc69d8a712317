"""The plan file is written only on request, and then no change of another writer is lost."""

from __future__ import annotations

import pytest

from planloop.client import plan_file
from planloop.reconciler.diff.file_patch import FileSave
from planloop.server.edit import edit_service as desks
from planloop.server.edit.edit_service import EditService
from planloop.server.gateway import owner_proxy
from planloop.server.gateway.owner_proxy import OwnerProxy
from planloop.server.gateway.replica import PlanReplica
from planloop.server.payloads import save_to_json
from tests.product import CommandError, sha256_hex
from tests.product import CommandExit as Exit
from tests.server.edit.conftest import Opened
from tests.server.edit.test_edit_service import PLAN

pytestmark = pytest.mark.anyio


async def test_the_file_gets_the_very_text_with_the_comments_that_were_typed(opened: Opened) -> None:
    async with opened(PLAN) as session:
        mode = 0o640
        session.file.chmod(mode)
        await session.begin()
        session.type('"first"   # quoted', '"mine"   # because')
        await session.apply()

        said = await session.pull()

        assert said["is_text"] is True
        assert session.file.read_text() == PLAN.replace('"first"   # quoted', '"mine"   # because')
        assert session.file.stat().st_mode & 0o777 == mode
        assert await session.begin() == session.file.read_text(), "it is what others begin on now"
        assert {path.name for path in session.file.parent.iterdir()} == {".plan", session.file.name}


async def test_without_the_text_only_the_values_are_written(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        await session.goal("a", "theirs")

        said = await session.pull()

        assert (said["is_text"], said["changed"]) == (False, 1)
        assert session.file.read_text() == PLAN.replace('"first"', '"theirs"')


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
async def test_line_ends_and_a_byte_order_mark_are_unchanged(opened: Opened, mark: bytes) -> None:
    crlf = mark + PLAN.replace("\n", "\r\n").encode()
    async with opened(crlf) as session:
        text = await session.begin()
        session.draft["text"] = text.replace("\r\n", "\n")  # As an editor in a browser has it.
        session.type('"first"', '"mine"   # because')
        await session.apply()

        assert (await session.pull())["is_text"] is True

        assert session.file.read_bytes() == crlf.replace(b'"first"', b'"mine"   # because')


@pytest.mark.parametrize(
    ("content", "exit_", "words"),
    [
        (PLAN.replace("second", "theirs, unsaved"), Exit.CONFLICT, "changes that are not applied"),
        (PLAN + "# a note of theirs\n", Exit.CONFLICT, "changes that are not applied"),
        ("plan: [", Exit.CONFLICT, "changes that are not applied"),
        (None, Exit.NOT_FOUND, "no file"),
    ],
)
async def test_moved_file_is_left_alone(opened: Opened, content: str | None, exit_: Exit, words: str) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        await session.apply()
        if content is None:
            session.file.unlink()
        else:
            session.file.write_text(content)

        with pytest.raises(CommandError, match=words) as stop:
            await session.pull()

        assert stop.value.exit == exit_
        assert (session.file.read_text() if session.file.exists() else None) == content
        assert session.live["tasks"]["a"]["goal"] == "mine"


async def test_lines_that_others_wrote_into_the_file_since_stay(opened: Opened) -> None:
    """The draft is of the file as it was: its text must not stand for the file that others saved meanwhile."""
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        await session.apply()
        theirs = PLAN.replace("# the plan", "# the plan, with a note of theirs")
        session.file.write_text(theirs)
        file = plan_file.read_plan(session.file)
        await OwnerProxy(session.replica).post(
            "file", save_to_json(FileSave(session.file.name, file.content, file.document))
        )

        assert (await session.pull())["is_text"] is False

        assert session.file.read_text() == theirs.replace('"first"', '"mine"')


async def test_draft_continues_from_what_was_written_even_when_the_log_is_read_late(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next comments that are typed would not get into the file: it would seem to be another's."""
    monkeypatch.setattr(owner_proxy, "SEEN_S", 0.05)
    monkeypatch.setattr(desks, "SEEN_S", 0.05)
    async with opened(PLAN) as session:
        await session.begin()
        session.type("# the plan", "# our plan")
        late = PlanReplica(session.place)
        await late.load()  # And reads no more of the log.
        session.desk = EditService(late, OwnerProxy(late))

        said = await session.pull()

        late.close()
        assert (said["is_text"], said["blob"]) == (True, sha256_hex(session.file.read_bytes()))
