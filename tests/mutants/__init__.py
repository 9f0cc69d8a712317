"""Mutants of the product, to measure how many the tests kill: `python -m tests.mutants`."""
