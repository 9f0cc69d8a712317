"""Faults put into the product on purpose, to measure which of them the tests find: `python -m tests.mutants`."""
