"""The size limits of CONTRIBUTING.md, without an exemption list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, python_files

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
TEST_FILE_LINES_MAX = 800
PARAMETERS_MAX = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, Function):
            yield node


def parameters(function: Function) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("file", python_files(), ids=str)
def test_no_file_and_no_function_is_longer_than_the_limits(file: Path) -> None:
    path = ROOT / file
    limit = TEST_FILE_LINES_MAX if file.parts[0] == "tests" else FILE_LINES_MAX
    assert len(path.read_text().splitlines()) <= limit

    too_long = [
        f"{file}:{function.lineno} {function.name}"
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert too_long == []


@pytest.mark.parametrize("file", [file for file in python_files() if file.parts[0] != "tests"], ids=str)
def test_no_function_takes_more_than_six_parameters(file: Path) -> None:
    # A command's parameters are its flags, which click passes by name.
    if file.parts[:2] == ("planloop", "cli"):
        too_many = []
    else:
        too_many = [f.name for f in functions(ROOT / file) if parameters(f) > PARAMETERS_MAX]

    assert too_many == []
