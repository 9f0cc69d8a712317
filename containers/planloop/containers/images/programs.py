"""Runs a program of this machine to its end, for what it prints."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
from anyio.streams.text import TextReceiveStream

from planloop.containers.images.errors import ImageFailed

TOLD_LINES: Final = 3
ANYWHERE: Final = ("env", "-u", "JAVA_TOOL_OPTIONS", "-u", "JDK_JAVA_OPTIONS", "LC_ALL=C")
"""What it prints and does must not differ with a person's settings."""


async def lines_of(
    argv: Sequence[str | Path],
    *,
    folder: Path,
    timeout_s: float,
    on_line: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """What it printed, both streams, line by line, and each line as it comes. Cancelled, it is killed.

    Raises ImageFailed with its last lines when it fails or is not there.
    """
    told: list[str] = []
    try:
        with anyio.fail_after(timeout_s):
            code = await _run([*ANYWHERE, *map(str, argv)], folder, told, on_line)
    except TimeoutError as error:
        raise ImageFailed(f"{Path(argv[0]).name} did not end within {timeout_s:.0f} s") from error
    if code:
        raise ImageFailed(f"{Path(argv[0]).name} failed (exit {code}): {'; '.join(_errors(told))}")
    return told


async def _run(argv: list[str], folder: Path, told: list[str], on_line: Callable[[str], None]) -> int:
    async with await anyio.open_process(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            told += lines
            for line in lines:
                on_line(line)
        told += [rest] if rest else []
        return await process.wait()


def _errors(told: list[str]) -> list[str]:
    """Those lines that a program marked as its errors, else the last that it printed."""
    marked = [line.strip() for line in told if line.startswith(("E:", "Error", "dpkg-deb: error"))]
    return (marked or [line.strip() for line in told if line.strip()])[-TOLD_LINES:]
