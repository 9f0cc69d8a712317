"""The page on images is true: its sessions print what it shows, and its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.images.stock import STOCK, StockImage
from planloop.schemas import limits
from tests.architecture.tree import ROOT
from tests.docs.sessions import SESSION, Terminal, check

PAGE = ROOT / "docs" / "reference" / "images.md"


@pytest.mark.engine
@pytest.mark.smoke
@pytest.mark.timeout(180)
def test_the_sessions_of_the_page_are_real(engine: DockerEngine, tmp_path: Path, apt: str, is_updating: bool) -> None:
    text = PAGE.read_text()
    terminal = Terminal(tmp_path, timeout_s=60)
    terminal.type(apt)

    now = SESSION.sub(lambda found: f"```console\n{_played(found[1], terminal)}```\n", text)

    check(PAGE, now, is_updating=is_updating)


def _played(block: str, terminal: Terminal) -> str:
    """The session with what its commands print now, less what depends on Debian and on the engine."""
    said = terminal.play(block).replace("planloop/shell: loading it into the engine\n", "")
    said = re.sub(r"\b\d+\.\d (MB|MiB)\b", r"1.9 \1", said)
    return re.sub(r"(busybox-static)=\S+", r"\1=1:1.35.0-4+b4", said)


@pytest.mark.parametrize("stock", STOCK.values(), ids=list(STOCK))
def test_every_stock_image_is_documented(stock: StockImage) -> None:
    assert f"| `planloop/{stock.name}` | {stock.summary} |" in PAGE.read_text()


def test_the_bounds_of_a_tar_are_those_of_the_code() -> None:
    bounds = (
        f"more than {limits.ROOTFS_BYTES_MAX >> 30} GiB or {limits.ROOTFS_FILES_MAX:,} files, "
        f"headers over {limits.TAR_HEADER_BYTES_MAX >> 20} MiB"
    )

    assert bounds in PAGE.read_text()
