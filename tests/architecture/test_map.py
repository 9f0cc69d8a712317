"""In docs/contribute, `architecture.md` names modules that exist and has two pages; `modules.md` lists all modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import PACKAGES, ROOT, parsed, python_files

PAGE = ROOT / "docs" / "contribute" / "architecture.md"
MODULES = ROOT / "docs" / "contribute" / "modules.md"
LINES_MAX = 135  # Two printed pages in a small face.
HEAD = """\
# Modules

Every module with the first sentence of its docstring; `make docs` writes this page. Imports point down, in the order of
this page. The module `planloop.schemas.address` is the file `schemas/planloop/schemas/address.py`.
"""


def _modules() -> dict[str, str]:
    """The first paragraph of each module of the product, by dotted name; packages among them."""
    files = [file for file in python_files() if file.parts[0] in PACKAGES]
    return {_dotted(file): _first_paragraph(file) for file in files}


def _dotted(file: Path) -> str:
    return ".".join(file.with_suffix("").parts[1:]).removesuffix(".__init__")


def _first_paragraph(file: Path) -> str:
    text = ast.get_docstring(parsed(file)) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _page() -> Iterator[str]:
    found = _modules()
    packages = sorted({name.rpartition(".")[0] for name in found if name.count(".") > 1} | {"planloop.cli"})
    yield HEAD
    for top in reversed(PACKAGES):
        for package in packages:
            if package.split(".")[1] != top:
                continue
            yield f"## {package}\n\n{found.get(package, '')}\n\n| module | |\n| --- | --- |"
            for name, words in found.items():
                if name.rpartition(".")[0] == package and name not in packages:
                    yield f"| `{name.rpartition('.')[2]}` | {words.replace('|', chr(92) + '|')} |"
            yield ""


def test_every_module_that_the_map_names_is_there() -> None:
    named = set(re.findall(r"`(planloop\.[a-z]\w*\.[a-z][\w.]*)`", PAGE.read_text()))

    assert len(named) > 60
    assert named - set(_modules()) == set()


def test_the_map_stays_two_pages() -> None:
    assert len(PAGE.read_text().splitlines()) <= LINES_MAX


def test_the_list_of_modules_is_that_of_their_docstrings(is_updating: bool) -> None:
    page = "\n".join(_page())
    if is_updating:
        MODULES.write_text(page)

    assert MODULES.read_text() == page


def test_turn_description_names_at_most_twelve_existing_modules() -> None:
    story = ast.get_docstring(parsed(Path("controllers/planloop/controllers/agent/turn/__init__.py"))) or ""
    named = re.findall(r"^\d+\. `(planloop\.[\w.]+)`:", story, flags=re.MULTILINE)

    assert 8 <= len(named) <= 12
    assert [name for name in named if name not in _modules()] == []
