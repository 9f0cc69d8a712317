"""The plan language: text in, canonical document and wanted objects out. Pure: no clock, no files, no randomness.

`compile_source` goes the whole way from bytes; `check_document` does the same for a document that was patched.
"""
