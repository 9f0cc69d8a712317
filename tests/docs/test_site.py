"""The documentation site builds strictly, has no dead link and loads nothing from other hosts."""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.architecture.tree import ROOT

REPOSITORY = "https://github.com/planloop/planloop/"
LINK = re.compile(r"""<(a|link|script|img|source|iframe)\b[^>]*?\s(?:href|src)=["']?([^"'\s>]+)""")
ANCHOR = re.compile(r"""\s(?:id|name)=["']?([^"'\s>]+)""")
MARKDOWN_LINK = re.compile(r"(?<!`)\]\(([^()\s]+)\)")
FENCE = re.compile(r"(?ms)^ *```.*?^ *```")
CODE = re.compile(r"`[^`\n]*`")
NOT_LOADED = ("canonical", "alternate")


def source(folder: Path) -> Path:
    """A copy of everything that the site is built from."""
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    return folder


def build(folder: Path) -> tuple[int, str]:
    """The exit code and the output of `make site`'s command in `folder`."""
    argv = [sys.executable, "-m", "zensical", "build", "--strict"]
    ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    return ran.returncode, re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout + ran.stderr)


def links(site: Path) -> Iterator[tuple[str, str, str]]:
    """Page, element and target of each link of the built site."""
    for file in sorted(site.rglob("*.html")):
        page = file.relative_to(site).as_posix()
        for found in LINK.finditer(file.read_text()):
            if not any(f'rel="{rel}"' in found[0] for rel in NOT_LOADED):
                yield page, found[1], found[2].replace("&amp;", "&")


def problem(site: Path, page: str, element: str, target: str, anchors: dict[str, set[str]]) -> str:
    """What is wrong with one link, or the empty string."""
    url = urlsplit(target)
    if url.scheme or url.netloc:
        return _external(element, target)
    if page == "404.html":
        return ""  # It is served at any path, so its links begin with the path of `site_url`.
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(url.path))) if url.path else page
    if (site / path).is_dir():
        path = posixpath.normpath(posixpath.join(path, "index.html"))
    if not (site / path).is_file():
        return "no such file"
    if url.fragment and not url.fragment.startswith("__"):
        if path not in anchors:
            anchors[path] = set(ANCHOR.findall((site / path).read_text()))
        if unquote(url.fragment) not in anchors[path]:
            return "no such anchor"
    return ""


def _external(element: str, target: str) -> str:
    if element != "a":
        return "loaded from another host"
    for view in ("blob/main/", "tree/main/"):
        inside = target.removeprefix(REPOSITORY + view)
        if inside != target and not (ROOT / inside.partition("#")[0]).exists():
            return "not in the repository"
    return ""


@pytest.mark.process
def test_the_site_builds_strictly_and_no_link_is_dead(tmp_path: Path) -> None:
    code, output = build(source(tmp_path))
    assert code == 0, output

    site, anchors = tmp_path / "site", dict[str, set[str]]()
    every = sorted(set(links(site)))
    dead = {
        (page, target): why for page, element, target in every if (why := problem(site, page, element, target, anchors))
    }

    assert len(every) > 1000
    assert dead == {}


@pytest.mark.process
def test_a_broken_link_and_a_broken_anchor_fail_the_build(tmp_path: Path) -> None:
    page = source(tmp_path) / "docs" / "index.md"
    page.write_text(page.read_text() + "\n[a](no-such-page.md) [b](start/install.md#no-such-anchor)\n")

    code, output = build(tmp_path)

    assert code != 0
    assert "page does not exist" in output
    assert "anchor does not exist" in output


def test_relative_links_of_markdown_files_lead_to_files() -> None:
    """Covers files outside of the site too: the README, CONTRIBUTING, and the texts of plans and reports."""
    files = [
        *ROOT.glob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("reports/*.md"),
    ]
    dead = []
    for file in files:
        for target in MARKDOWN_LINK.findall(CODE.sub("", FENCE.sub("", file.read_text()))):
            path = unquote(target.partition("#")[0])
            if path and ":" not in target and not (file.parent / path).exists():
                dead.append((file.relative_to(ROOT).as_posix(), target))

    assert dead == []


def test_links_of_the_site_do_not_leave_its_folder() -> None:
    """`../README.md` works on GitHub only. Such a link names the repository's URL."""
    docs = ROOT / "docs"
    outside = []
    for file in docs.rglob("*.md"):
        for target in MARKDOWN_LINK.findall(CODE.sub("", FENCE.sub("", file.read_text()))):
            path = target.partition("#")[0]
            if path and ":" not in target and not (file.parent / path).resolve().is_relative_to(docs):
                outside.append((file.relative_to(ROOT).as_posix(), target))

    assert outside == []


def test_every_page_has_its_place_in_the_navigation() -> None:
    """Pages on error codes are left to the search and to their index."""
    docs = ROOT / "docs"
    pages = {file.relative_to(docs).as_posix() for file in docs.rglob("*.md")}
    named = re.findall(r"(?m)^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text())

    assert sorted(named) == sorted(page for page in pages if not re.search(r"errors/P\d+\.md$", page))


@pytest.mark.network
@pytest.mark.timeout(300)
def test_material_for_mkdocs_builds_the_same_site_and_fails_at_a_broken_link(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "mkdocs-material==9.*"], check=True)
    argv = [python, "-m", "mkdocs", "build", "--strict"]
    page = source(tmp_path) / "docs" / "index.md"

    sound = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    page.write_text(page.read_text() + "\n[b](start/install.md#no-such-anchor)\n")
    broken = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert sound.returncode == 0, sound.stderr
    assert broken.returncode != 0
