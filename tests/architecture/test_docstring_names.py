"""Names of code in backticks, in docstrings and comments, are names that exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.tree import ROOT, parsed, source_files

pytestmark = [pytest.mark.usefixtures("parsed_once", "tokenized_once"), pytest.mark.timeout(300)]

DOTTED: Final = re.compile(r"`(planloop(?:\.\w+)+)`")
OF_CLASS: Final = re.compile(r"`(?:\w+\.)?([A-Z][a-z]+\w*)\.[a-z]+(?:_[a-z]+)*`")
IN_MODULE: Final = re.compile(r"`([a-z]\w*)\.[A-Z][a-z]+\w*`")
INVERSE: Final = re.compile(r"[Ii]nverse of `(\w+)`")


@pytest.fixture(scope="module")
def tokenized_once() -> None:
    """Read every file before the first test, as `parsed_once` parses it."""
    _texts()
    _classes()
    for file in source_files():
        _words(file)


def test_names_of_modules_in_texts_exist() -> None:
    unknown = {f"{file}: {name}" for file, text in _texts() for name in DOTTED.findall(text) if not _exists(name)}

    assert unknown == set()


def test_names_of_classes_and_inverses_in_texts_exist() -> None:
    known = _classes() | {file.stem for file in source_files()}
    unknown = {
        f"{file}: {name}"
        for file, text in _texts()
        for pattern, others in ((OF_CLASS, known), (IN_MODULE, known), (INVERSE, set()))
        for name in pattern.findall(text)
        if name not in others and name not in _words(file)
    }

    assert unknown == set()


@cache
def _texts() -> tuple[tuple[Path, str], ...]:
    """The docstrings and comments of every file."""
    return tuple(_read_texts())


def _read_texts() -> Iterator[tuple[Path, str]]:
    for file in source_files():
        for node in ast.walk(parsed(file)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield file, node.value.value
        yield file, "\n".join(one.string for one in _tokens(file) if one.type == tokenize.COMMENT)


@cache
def _tokens(file: Path) -> tuple[tokenize.TokenInfo, ...]:
    return tuple(tokenize.generate_tokens(io.StringIO((ROOT / file).read_text()).readline))


@cache
def _words(file: Path) -> frozenset[str]:
    """The names in the code of `file`."""
    return frozenset(one.string for one in _tokens(file) if one.type == tokenize.NAME)


@cache
def _classes() -> frozenset[str]:
    nodes = (node for file in source_files() for node in ast.walk(parsed(file)))
    return frozenset(node.name for node in nodes if isinstance(node, ast.ClassDef))


@cache
def _modules() -> dict[str, Path]:
    """Modules and packages by dotted name, each with its file, or with its folder if it has no `__init__`."""
    found: dict[str, Path] = {}
    for file in source_files():
        parts = file.with_suffix("").parts[1:]
        found[".".join(parts).removesuffix(".__init__")] = file
        for depth in range(1, len(parts)):
            found.setdefault(".".join(parts[:depth]), file)
    return found


def _exists(dotted: str) -> bool:
    """Whether `dotted` is a module, or a name in the code of one."""
    modules = _modules()
    parts = dotted.split(".")
    depth = next(depth for depth in range(len(parts), 0, -1) if ".".join(parts[:depth]) in modules)
    rest = parts[depth:]
    return len(rest) <= 2 and all(name in _words(modules[".".join(parts[:depth])]) for name in rest)
