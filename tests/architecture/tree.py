"""The source tree as the architecture tests see it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    "schemas",
    "compiler",
    "reconciler",
    "controllers",
    "containers",
    "benchmarks",
    "client",
    "server",
    "owner",
    "cli",
)


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of `file`, relative to the root. Read only: the tests of a process share it."""
    return ast.parse((ROOT / file).read_text())


def source_files() -> list[Path]:
    """Every Python file of the product, relative to the root."""
    return [file for file in python_files() if file.parts[0] != "tests"]


@cache
def python_files() -> list[Path]:
    """Every Python file of the product and its tests, relative to the root, but for generated and golden ones."""
    found = (file for top in (*PACKAGES, "tests") for file in (ROOT / top).rglob("*.py"))
    return sorted(file.relative_to(ROOT) for file in found if "golden" not in file.parts)


def text_files() -> list[Path]:
    """Every file that people read, relative to the root."""
    kinds = {".py", ".md", ".toml", ".yaml", ".edn", ".json", ".cfg", ".sh", ""}
    tops = [ROOT / name for name in (*PACKAGES, "tests", "docs", "plans", ".ci", "reports")]
    found = [file for top in tops for file in top.rglob("*") if file.is_file() and file.suffix in kinds]
    # In a worktree `.git` is a file with the path of its repository.
    found += [file for file in ROOT.iterdir() if file.is_file() and file.suffix in kinds and file.name != ".git"]
    skipped = ("__pycache__", ".plan", "node_modules")
    return sorted(file.relative_to(ROOT) for file in found if not any(part in skipped for part in file.parts))
