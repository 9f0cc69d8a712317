"""The plan language: text in, canonical document and wanted objects out. Pure: no clock, no files, no randomness.

`compile_source` goes the whole way from bytes; `check_document` does the same for a document that was patched.
"""

from __future__ import annotations

from planloop.compiler.compiling import check_document, compile_source
from planloop.compiler.graph import Checked, Compiled, Graph, Sources
from planloop.compiler.reading import SizeLimits, read_source
from planloop.schemas.fields import ChangeClass
from planloop.schemas.fields_all import change_class

__all__ = [
    "ChangeClass",
    "Checked",
    "Compiled",
    "Graph",
    "SizeLimits",
    "Sources",
    "change_class",
    "check_document",
    "compile_source",
    "read_source",
]
