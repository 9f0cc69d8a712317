"""Texts are compiled in a process apart: it is kept, replaced when it dies, and loads nothing of the plan's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from planloop.server.edit import compile_pool
from planloop.server.edit.compile_pool import CompilePool
from tests.product import CommandError
from tests.product import CommandExit as Exit

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench() -> Iterator[CompilePool]:
    with closing(CompilePool()) as made:
        yield made


async def test_one_process_compiles_one_text_after_another(bench: CompilePool) -> None:
    assert await bench.run(os.getpid) == await bench.run(os.getpid) != os.getpid()


async def test_worker_that_dies_is_reported_and_the_next_text_has_another(bench: CompilePool) -> None:
    before = await bench.run(os.getpid)

    with pytest.raises(CommandError, match="compiles the text ended"):
        await bench.run(os._exit, 1)

    assert await bench.run(os.getpid) != before


async def test_a_text_that_takes_too_long_takes_only_its_process_with_it(
    bench: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await bench.run(os.getpid)
    monkeypatch.setattr(compile_pool, "LOOK_S", 0.05)

    with pytest.raises(CommandError) as stop:
        await bench.run(time.sleep, 100)

    assert stop.value.exit == Exit.TIMEOUT
    assert not Path(f"/proc/{before}").exists()
    monkeypatch.undo()
    assert await bench.run(os.getpid) != before


async def test_process_loads_nothing_from_the_folder_where_agents_write(
    bench: CompilePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("planloop.py", "pickle.py", "struct.py"):
        (tmp_path / name).write_text("open('loaded', 'w').close()\n")
    monkeypatch.chdir(tmp_path)

    assert await bench.run(os.getcwd) == os.path.realpath(tmp_path)

    assert not (tmp_path / "loaded").exists()
