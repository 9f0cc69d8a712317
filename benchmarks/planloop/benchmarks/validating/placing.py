"""Where in the suite's text a fault of it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from planloop.compiler.faults import Fault, Origins, placed
from planloop.compiler.reading import read_source
from planloop.schemas.diagnostic import Diagnostic, in_order


def in_text(faults: Iterable[Diagnostic], text: str, file: str) -> list[Diagnostic]:
    """`faults` at the line that wrote what they are about, or the nearest thing around it; in order, each once."""
    tree = read_source(text.encode(), file=file)
    return in_order(placed([Fault(fault) for fault in faults], Origins(tree, {})))
