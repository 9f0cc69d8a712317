"""The size limits of CONTRIBUTING.md, without an exemption list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, parsed, python_files, source_files

# The first test of a process parses some 1,600 files.
pytestmark = [pytest.mark.usefixtures("parsed_once"), pytest.mark.timeout(300)]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
TEST_FILE_LINES_MAX = 800
PARAMETERS_MAX = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> Iterator[Function]:
    for node in ast.walk(parsed(file)):
        if isinstance(node, Function):
            yield node


def parameters(function: Function) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_no_file_is_longer_than_the_limit() -> None:
    too_long = [f"{file}: {lines}" for file in python_files() if (lines := _lines(file)) > _limit(file)]

    assert too_long == []


def test_no_function_is_longer_than_the_limit() -> None:
    too_long = [
        f"{file}:{function.lineno} {function.name}"
        for file in python_files()
        for function in functions(file)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert too_long == []


def test_no_function_takes_more_than_six_parameters() -> None:
    # A command's parameters are its flags, which click passes by name.
    files = [file for file in source_files() if file.parts[0] != "cli"]
    too_many = [
        f"{file}:{function.lineno} {function.name}"
        for file in files
        for function in functions(file)
        if parameters(function) > PARAMETERS_MAX
    ]

    assert too_many == []


def _lines(file: Path) -> int:
    return len((ROOT / file).read_text().splitlines())


def _limit(file: Path) -> int:
    return TEST_FILE_LINES_MAX if file.parts[0] == "tests" else FILE_LINES_MAX
