"""What libyaml says about a broken text, in words that name the likely slip and its cure."""

from __future__ import annotations

from yaml import MarkedYAMLError

from compiler.source import Source
from schemas.diagnostic import Diagnostic


def explain(source: Source, error: MarkedYAMLError) -> tuple[Diagnostic, ...]:
    """The faults behind a parser's error; at least one."""
    at = error.problem_mark.index if error.problem_mark else 0
    return (Diagnostic("P0105", str(error.problem), span=source.span(at, at)),)
