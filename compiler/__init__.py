"""The plan language: text in, canonical document and wanted objects out. Pure: no clock, no files, no randomness.

`compile_source` goes the whole way from bytes; `check_document` does the same for a document that was patched.
"""

from __future__ import annotations

from compiler.compiling import check_document, compile_source
from compiler.graph import Checked, Compiled, Graph, Sources
from compiler.reading import SizeLimits, read_source
from schemas.fields import ChangeClass
from schemas.fields_all import change_class

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
