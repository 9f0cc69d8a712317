"""The texts of the product that name a `plan` command, read from its sources: what a person may be told to run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

from planloop.cli.main import cli
from tests.architecture.tree import PACKAGES

ROOT: Final = Path(__file__).parents[1]
LEFT_OUT: Final = ("benchmarks/planloop/benchmarks/speed",)
VERBS: Final = tuple(cli.list_commands(click.Context(cli)))
NAMES: Final = re.compile(rf"(?<![\w.-])plan ({'|'.join(VERBS)})(?![\w-])")


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Each text with the file it is in; what is put into it stands as `{}`. Docstrings and `--help` are left out."""
    found: list[tuple[str, str]] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            where = path.relative_to(ROOT).as_posix()
            if not where.startswith(LEFT_OUT):
                found += [(where, text) for text in _of(ast.parse(path.read_text())) if _is_told(text)]
    return tuple(dict.fromkeys(found))


def listed(written: dict[str, Any]) -> frozenset[tuple[str, str]]:
    """All texts of the registry with their files, whatever runs them."""
    groups = [*written["run"].values(), *written["look"].values(), *written["begin"].values(), written["words"]]
    return frozenset((where, text) for group in groups for where, texts_ in group.items() for text in texts_)


def _is_told(text: str) -> bool:
    return NAMES.search(text) is not None and "Examples:" not in text


def _of(tree: ast.AST) -> Iterator[str]:
    hidden: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            hidden |= {id(each) for each in ast.walk(node) if each is not node}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
