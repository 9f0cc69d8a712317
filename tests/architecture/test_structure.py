"""The shape of the product: no import cycles, and names that say what a module or class is."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions

import pytest

from tests.architecture.tree import PACKAGES, ROOT, parsed, python_files

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


@pytest.fixture(scope="module")
def used_distributions() -> dict[str, set[str]]:
    """The packages of others that the product imports, each with the distributions that install it."""
    installed = packages_distributions()
    shipped = [file for file in FILES.values() if "speed" not in file.parts]
    used = {name for file in shipped for name in third_party_imports(parsed(file))}
    return {name: {_distribution(one) for one in installed.get(name, ())} for name in used}


def test_every_third_party_import_of_the_product_is_declared(used_distributions: dict[str, set[str]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "test" for line in lines]
    declared = {_distribution(line) for line in [*project["dependencies"], *extras]}

    assert "aiohttp" in used_distributions
    assert {name for name, found in used_distributions.items() if not declared & found} == set()


def third_party_imports(tree: ast.Module) -> Iterator[str]:
    """The packages that a file imports, beside the product and the standard library."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [each.name for each in names]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
                modules = [module]
            case _:
                modules = []
        tops = {module.partition(".")[0] for module in modules}
        yield from tops - sys.stdlib_module_names - {"planloop"}


def _distribution(requirement: str) -> str:
    """The normalised name of the distribution that a requirement names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()
