"""The page on images is true: its sessions print what it shows, and its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.images.stock import STOCK, StockImage
from planloop.schemas import limits
from tests.docs.test_readme import SESSION
from tests.docs.verb_pages import ROOT, shell, steady

PAGE = ROOT / "docs" / "reference" / "images.md"


@pytest.mark.engine
@pytest.mark.smoke
@pytest.mark.timeout(180)
def test_the_sessions_of_the_page_are_real(engine: DockerEngine, tmp_path: Path, apt: str, is_updating: bool) -> None:
    text = PAGE.read_text()

    now = SESSION.sub(lambda found: f"```console\n{_played(found[1], tmp_path, apt)}```\n", text)

    if is_updating:
        PAGE.write_text(now)
    assert PAGE.read_text() == now, "run `make docs` and look at the difference"


def _played(block: str, folder: Path, apt: str) -> str:
    """The session with what its commands print now, less what depends on Debian and on the engine."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    parts = [f"$ {command}\n{shell(f'{apt}; {command}', folder, timeout_s=60)[0]}".rstrip() for command in commands]
    said = steady("\n\n".join(parts)).replace("planloop/shell: gives it to the engine\n", "")
    said = re.sub(r"\b\d+\.\d (MB|MiB)\b", r"1.9 \1", said)
    return re.sub(r"(busybox-static)=\S+", r"\1=1:1.35.0-4+b4", said) + "\n"


@pytest.mark.parametrize("stock", STOCK.values(), ids=list(STOCK))
def test_every_stock_image_is_told_of(stock: StockImage) -> None:
    assert f"| `planloop/{stock.name}` | {stock.summary} |" in PAGE.read_text()


def test_the_bounds_of_a_tar_are_those_of_the_code() -> None:
    bounds = (
        f"more than {limits.ROOTFS_BYTES_MAX >> 30} GiB or {limits.ROOTFS_FILES_MAX:,} files, "
        f"headers over {limits.TAR_HEADER_BYTES_MAX >> 20} MiB"
    )

    assert bounds in PAGE.read_text()
