"""Every test can fail: in each branch it asserts, expects an error, or calls a function of the tests that does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.architecture.tree import ROOT, parsed, python_files

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

DIRECT: Final = re.compile(r"\b(?:raises|warns|fail|expect|fail_after|raise AssertionError)\(")
ASSERT: Final = re.compile(r"^\s+assert ", re.MULTILINE)
NAME: Final = re.compile(r"(?<![\w.])(\w+)\(")
METHOD: Final = re.compile(r"\.(\w+)\(")


@dataclass(frozen=True, slots=True)
class Module:
    """A file of the tests: its lines, its functions, and the names that it defines or imports from other tests."""

    file: Path
    lines: list[str]
    functions: list[Function]
    known: frozenset[str]

    def text(self, node: ast.stmt) -> str:
        return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])


def test_every_test_asserts_in_each_case() -> None:
    modules = [module_of(file) for file in python_files() if file.parts[0] == "tests"]
    asserting = asserting_names(modules)
    silent = [
        f"{module.file}:{function.lineno} {function.name}"
        for module in modules
        if module.file.name.startswith("test_")
        for function in module.functions
        if function.name.startswith("test_") and not always(function.body, module, asserting)
    ]

    assert silent == []


def test_an_assertion_only_under_a_condition_is_found() -> None:
    text = "def test_a(x):\n    if x:\n        assert x\n    else:\n        {}\n"
    for other, expected in (("pass", False), ("assert not x", True), ("check(x)", True), ("print(x)", False)):
        tree = ast.parse(text.format(other))
        module = Module(Path(), text.format(other).splitlines(), list(functions(tree.body)), frozenset({"check"}))
        assert always(module.functions[0].body, module, frozenset({"check", "print"})) is expected


def module_of(file: Path) -> Module:
    tree = parsed(file)
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests")
        for alias in node.names
    }
    found = list(functions(tree.body))
    lines = (ROOT / file).read_text().split("\n")
    return Module(file, lines, found, frozenset(imported | {each.name for each in found}))


def functions(body: Sequence[ast.stmt]) -> Iterator[Function]:
    """All functions in `body`, with those within them."""
    for node in body:
        if isinstance(node, Function):
            yield node
        for part in parts(node):
            yield from functions(part)


def parts(node: ast.stmt) -> list[list[ast.stmt]]:
    """The bodies of a compound statement."""
    found = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    inner = (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))
    return [*found, *(each.body for each in inner)]


def asserting_names(modules: Sequence[Module]) -> frozenset[str]:
    """The names of functions that assert, themselves or in what they call."""
    bodies = [(module, each.name, module.text(each)) for module in modules for each in module.functions]
    asserting = frozenset(name for _, name, text in bodies if ASSERT.search(text) or DIRECT.search(text))
    rest = [(module, name, text) for module, name, text in bodies if name not in asserting]
    while more := {name for module, name, text in rest if calls(text, module, asserting)} - asserting:
        asserting |= more
    return asserting


def calls(text: str, module: Module, asserting: frozenset[str]) -> bool:
    named = module.known.intersection(NAME.findall(text)).union(METHOD.findall(text))
    return not asserting.isdisjoint(named)


def always(body: Sequence[ast.stmt], module: Module, asserting: frozenset[str]) -> bool:
    """Whether `body` asserts in every branch of its conditions."""

    def does(node: ast.stmt) -> bool:
        match node:
            case ast.Assert():
                return True
            case ast.If():
                return always(node.body, module, asserting) and always(node.orelse, module, asserting)
            case ast.Match():
                return all(always(case.body, module, asserting) for case in node.cases)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
            case ast.Try():
                return any(always(part, module, asserting) for part in (node.body, node.orelse, node.finalbody))
            case ast.For() | ast.AsyncFor() | ast.While():
                return always(node.body, module, asserting)
            case ast.With() | ast.AsyncWith():
                head = "\n".join(module.lines[node.lineno - 1 : node.body[0].lineno - 1])
                return bool(DIRECT.search(head)) or always(node.body, module, asserting)
            case _:
                text = module.text(node)
                return bool(DIRECT.search(text)) or calls(text, module, asserting)

    return any(does(node) for node in body)
