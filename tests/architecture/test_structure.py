"""The shape of the product: no import cycles, and names that say what a module or class is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from tests.architecture.tree import PACKAGES, parsed, python_files

pytestmark = [pytest.mark.usefixtures("parsed_once"), pytest.mark.timeout(300)]

FILES = {
    ".".join(file.with_suffix("").parts[1:]).removesuffix(".__init__"): file
    for file in python_files()
    if file.parts[0] in PACKAGES
}
"""The files of the product by module."""


def test_no_modules_import_each_other() -> None:
    """Imports in functions count; imports for types alone do not, since they load nothing."""
    imports = {module: set(imported(parsed(file).body)) for module, file in FILES.items()}

    assert sum(map(len, imports.values())) > 3000
    TopologicalSorter(imports).prepare()  # Raises CycleError with the modules of a cycle.


def imported(body: list[ast.stmt]) -> Iterator[str]:
    """The modules of the product that these statements import, also inside of functions."""
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module)):
                for each in node.names:
                    name = f"{module}.{each.name}"
                    yield from (one for one in (name if name in FILES else module,) if one in FILES)
            case ast.Import():
                yield from (each.name for each in node.names if each.name in FILES)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case _:
                for inner in ("body", "orelse", "handlers", "finalbody", "cases"):
                    yield from imported(getattr(node, inner, []))


def test_no_module_is_named_by_a_gerund() -> None:
    assert [file for file in FILES.values() if file.stem.endswith("ing")] == []


def test_a_public_class_name_occurs_once() -> None:
    names = Counter(
        node.name
        for file in FILES.values()
        for node in parsed(file).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert [name for name, count in names.items() if count > 1] == []
