"""One process owns a plan; a killed one is replaced; the epoch only ever rises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from planloop.reconciler.errors import NotOwner, StoreFailed
from planloop.reconciler.store import owner_lock, state_files
from planloop.reconciler.store.sqlite import database
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from tests.product import RECORD_TYPES, SystemClock

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from planloop.reconciler.store import owner_lock
from planloop.reconciler.store.sqlite import database
with owner_lock.own_plan(Path(sys.argv[1]), now=5.0, stored_epoch=database.stored_epoch) as owner:
    print(owner.pid, owner.epoch, flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], int, int]:
    """A process that owns the plan until its input ends, its pid and its epoch."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid, epoch = process.stdout.readline().split()
    return process, int(pid), int(epoch)


def take(folder: Path) -> int:
    with owner_lock.own_plan(folder, now=1.0, stored_epoch=database.stored_epoch) as owner:
        return owner.epoch


def test_epochs_count_up_with_every_owner(tmp_path: Path) -> None:
    assert [take(tmp_path / "plan") for _ in range(3)] == [1, 2, 3]


def test_one_of_two_concurrent_owners_wins_and_the_other_gets_its_pid(tmp_path: Path) -> None:
    process, pid, epoch = holder(tmp_path)
    with process:
        with pytest.raises(NotOwner) as caught:
            take(tmp_path)
        assert caught.value.pid == pid == process.pid
        owner = owner_lock.current_owner(tmp_path)
        assert owner is not None
        assert (owner.pid, owner.epoch, owner.since) == (pid, epoch, 5.0)
        assert owner.socket == str(state_files.socket_file(tmp_path))
        process.communicate("")
    assert owner_lock.current_owner(tmp_path) is None
    assert take(tmp_path) == epoch + 1


def test_an_owner_killed_with_9_is_replaced(tmp_path: Path) -> None:
    process, _, epoch = holder(tmp_path)
    with process:
        process.kill()
        process.wait()
    assert owner_lock.current_owner(tmp_path) is None
    assert take(tmp_path) == epoch + 1


def test_plan_that_was_never_applied_has_no_owner(tmp_path: Path) -> None:
    assert owner_lock.current_owner(tmp_path / "nowhere") is None


@pytest.mark.anyio
async def test_a_deleted_owner_file_does_not_take_the_epoch_back(tmp_path: Path) -> None:
    for expected in (1, 2):
        with owner_lock.own_plan(tmp_path, now=1.0, stored_epoch=database.stored_epoch) as owner:
            assert owner.epoch == expected
            async with SqliteStore.open(tmp_path, clock=SystemClock(), epoch=owner.epoch, inline=True) as store:
                rev = await store.append(owner_lock.epoch_draft(owner, "demo"))
                [record] = await store.log(rev - 1, 1)
        state_files.owner_file(tmp_path).unlink()
    assert take(tmp_path) == 3
    assert record.draft.type in RECORD_TYPES
    assert record.draft.data["epoch"] == record.epoch == 2


def test_damaged_owner_file_is_rewritten(tmp_path: Path) -> None:
    state_files.owner_file(tmp_path).write_text("[1, 2")
    assert take(tmp_path) == 1


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("")
    with pytest.raises(StoreFailed, match="plan"):
        take(tmp_path / "plan")


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/team /srv/team nfs4 rw 0 0
/dev/vdb /srv/team/local ext4 rw 0 0
//nas/x /mnt/my\\040share cifs rw 0 0
tmpfs /tmp tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("/srv/plan", None),
        ("/srv/team/ann/plan", "nfs4"),
        ("/srv/team", "nfs4"),
        ("/srv/teams/ann", None),
        ("/srv/team/local/plan", None),
        ("/mnt/my share/plan", "cifs"),
        ("/tmp/plan", None),
    ],
)
def test_network_file_systems_are_detected_by_the_closest_mount(path: str, system: str | None) -> None:
    assert owner_lock.network_file_system(Path(path), MOUNTS) == system
