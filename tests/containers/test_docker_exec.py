"""What an engine writes instead of a command's output."""

from __future__ import annotations

from planloop.containers.engine.docker_exec import GONE


def test_the_whole_output_decides_whether_the_container_went_before_the_command() -> None:
    task = b"task " + b"0a" * 32 + b" not found: not found"
    gone = (task, b"cannot exec in a stopped state: unknown\r\n", b"cannot exec in a deleted state: unknown\r\n")
    own = (b"echo: " + task, b"cannot exec in a paused state: unknown", b"cannot exec in a deleted state: no\nmore")

    assert [GONE.fullmatch(each) is not None for each in (*gone, *own)] == [True] * 3 + [False] * 3
