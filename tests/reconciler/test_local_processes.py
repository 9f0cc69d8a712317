"""What only real processes can show: orphans, groups, reboots, and owners killed around the moment of a start."""

from __future__ import annotations

import os
import random  # noqa: TID251 - seeded
from pathlib import Path

import anyio.lowlevel
import pytest

from planloop.reconciler.effects import local_processes, process_table
from planloop.reconciler.effects.local_processes import LocalProcesses, ShimState
from tests.fakes.owners import BegunOwner, CountingOwner
from tests.product import ExitCause, OperationTrace, ProcessCommand

pytestmark = pytest.mark.anyio
NOTHING: frozenset[str] = frozenset()


def processes(folder: Path, epoch: int = 1) -> LocalProcesses:
    return LocalProcesses(folder / "run", str(folder), epoch, grace_s=0.2)


def command(folder: Path, shell: str, **more: object) -> ProcessCommand:
    return ProcessCommand(str(folder), shell=shell, env={"PATH": "/usr/bin:/bin"}, **more)  # type: ignore[arg-type]


async def test_background_processes_of_a_finished_command_are_stopped(tmp_path: Path) -> None:
    owner = processes(tmp_path)

    assert (await owner.run("a", command(tmp_path, "sleep 60 & echo done"))).output == b"done\n"

    assert await owner.sweep(NOTHING) == []


async def test_sweep_finds_processes_that_left_their_group_by_label(tmp_path: Path) -> None:
    owner = processes(tmp_path)
    await owner.run("a", command(tmp_path, "setsid sh -c 'setsid sleep 60 &' & wait"))

    assert await owner.sweep(NOTHING) == ["a"]
    assert process_table.labelled_processes(str(tmp_path)) == []


async def test_timeout_also_stops_processes_that_left_the_group(tmp_path: Path) -> None:
    owner = processes(tmp_path)

    exit_ = await owner.run("a", command(tmp_path, "setsid sleep 60 & sleep 60", timeout_s=0.2))

    assert exit_.ending is ExitCause.TIMED_OUT
    assert process_table.labelled_processes(str(tmp_path)) == []


async def test_files_of_a_command_are_bounded(tmp_path: Path) -> None:
    owner = processes(tmp_path)

    exit_ = await owner.run("a", command(tmp_path, "yes > big", file_bytes_max=1 << 16))

    assert exit_.code != 0
    assert (tmp_path / "big").stat().st_size <= 1 << 16


async def test_two_plans_do_not_sweep_each_other(tmp_path: Path) -> None:
    other = tmp_path / "other"
    owner = BegunOwner(other, "theirs", command(tmp_path, "sleep 60"))
    await owner.until_begun()
    owner.kill()
    theirs = LocalProcesses(other, str(other), 2, grace_s=0.2)

    assert await processes(tmp_path).sweep(NOTHING) == []
    assert await theirs.trace("theirs") is OperationTrace.RUNNING
    await theirs.stop("theirs")


async def test_leftovers_of_a_command_go_when_a_later_owner_takes_its_result(tmp_path: Path) -> None:
    owner = BegunOwner(tmp_path, "a", command(tmp_path, "sleep 60 & sleep 0.1; echo done"))
    await owner.until_begun()
    owner.kill()
    successor = LocalProcesses(tmp_path, str(tmp_path), 2, grace_s=0.2)
    while await successor.trace("a") is not OperationTrace.ENDED:
        await anyio.lowlevel.checkpoint()

    assert (await successor.adopt("a")).output == b"done\n"
    assert process_table.labelled_processes(str(tmp_path)) == []


async def test_the_environment_is_the_given_one_and_the_labels(tmp_path: Path) -> None:
    exit_ = await processes(tmp_path, epoch=7).run("a", command(tmp_path, "env"))

    names = {line.split("=")[0] for line in exit_.output.decode().splitlines()}
    assert names - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "PLANLOOP_PLAN", "PLANLOOP_OP", "PLANLOOP_EPOCH"}


@pytest.mark.parametrize(
    ("shell", "code", "output"),
    [
        ("trap 'echo bye' EXIT; exit 3", 3, b"bye\n"),
        ("exec sh -c 'exit 4'", 4, b""),
        ("exit 125", 125, b""),
        ("exit 126", 126, b""),
        ("(exit 7)", 7, b""),
        ('echo $#; echo "$0"', 0, b"0\nsh\n"),
        ("f() { return 5; }; f", 5, b""),
        ("set -e; false; echo no", 1, b""),
        ("cat <<X\nhello\nX\n# a comment", 0, b"hello\n"),
    ],
)
async def test_the_shim_changes_nothing_for_the_command(tmp_path: Path, shell: str, code: int, output: bytes) -> None:
    exit_ = await processes(tmp_path).run("a", command(tmp_path, shell))

    assert (exit_.code, exit_.output) == (code, output)


async def test_folder_with_quotes_and_spaces_works(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "place" $HOME'
    folder.mkdir()
    owner = processes(folder)

    assert (await owner.run("a", command(folder, "pwd"))).output.decode().strip() == str(folder)
    assert await owner.trace("a") is OperationTrace.ENDED


async def test_a_command_with_a_null_byte_is_not_started(tmp_path: Path) -> None:
    exit_ = await processes(tmp_path).run("a", command(tmp_path, "echo a\0b"))

    assert exit_.ending is ExitCause.NOT_STARTED and b"null byte" in exit_.output


async def test_a_command_too_long_for_the_system_is_not_started(tmp_path: Path) -> None:
    exit_ = await processes(tmp_path).run("a", command(tmp_path, ": " + "x" * 200_000))

    assert exit_.ending is ExitCause.NOT_STARTED


async def test_limits_apply_to_the_command(tmp_path: Path) -> None:
    exit_ = await processes(tmp_path).run(
        "a", command(tmp_path, "ulimit -v; ulimit -t", memory_bytes_max=1 << 30, cpu_s_max=9)
    )

    assert exit_.output == b"1048576\n9\n"


async def test_too_much_output_is_reported_for_a_command_that_has_ended(tmp_path: Path) -> None:
    ended = await processes(tmp_path).run("a", command(tmp_path, "echo more than ten bytes", output_bytes_max=10))

    assert (ended.ending, ended.output) == (ExitCause.TOO_MUCH_OUTPUT, b"more than ")


async def test_a_process_with_the_pid_of_an_ended_one_is_not_adopted(tmp_path: Path) -> None:
    owner = processes(tmp_path)
    (tmp_path / "run/a.state").write_text(f"{os.getpid()}\n")

    assert await owner.trace("a") is OperationTrace.LOST


def test_a_line_of_a_state_file_that_a_crash_cut_short_does_not_count() -> None:
    assert local_processes.parse_shim_state("42\n1") == ShimState(42), "it may have been 137"
    assert local_processes.parse_shim_state("4") == ShimState()
    assert local_processes.parse_shim_state("42\n137\n") == ShimState(42, -9)


async def test_after_a_reboot_a_missing_state_file_proves_nothing(tmp_path: Path) -> None:
    owner = processes(tmp_path)
    await owner.run("before", command(tmp_path, "true"))
    (tmp_path / "run" / "boot").write_text("another boot")

    rebooted = processes(tmp_path, epoch=2)

    assert await rebooted.trace("a") is OperationTrace.LOST
    assert await rebooted.trace("a") is OperationTrace.LOST
    assert await rebooted.trace("before") is OperationTrace.ENDED


@pytest.mark.parametrize("seed", range(12))
async def test_law_5_an_owner_killed_around_a_start_never_leads_to_a_second_run(tmp_path: Path, seed: int) -> None:
    """The owner starts counted effects one after another and is killed at some moment; what it began is traced."""
    chance = random.Random(seed)
    owner = CountingOwner(tmp_path)
    begun = await owner.killed_after(chance.uniform(0, 0.02))
    successor = processes(tmp_path, epoch=2)

    for op in begun:
        if await successor.trace(op) is OperationTrace.NEVER_BEGAN:
            exit_ = await successor.run(f"{op}-again", command(tmp_path, f"echo {op} >> effects"))
            assert exit_.code == 0
        else:
            assert (await successor.adopt(op)).ending is ExitCause.EXITED

    await successor.sweep(NOTHING)  # It may find a late start on its way out: one that was fenced, and did nothing.
    assert process_table.labelled_processes(str(tmp_path)) == []
    assert sorted((tmp_path / "effects").read_text().split()) == sorted(begun)


async def test_sweep_removes_an_earlier_owners_leftovers_but_not_evidence_of_the_lost(tmp_path: Path) -> None:
    owner = processes(tmp_path)
    for op in ("ended", "kept"):
        await owner.run(op, command(tmp_path, "echo hello"))
    await owner.trace("fenced")
    (tmp_path / "run" / "lost.state").write_text("999999999\n")
    (tmp_path / "run" / "lost.out").write_text("so far")

    await processes(tmp_path, epoch=2).sweep(frozenset({"kept"}))

    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"boot", "kept.state", "kept.out", "lost.state", "lost.out"}
