"""Benchmark suites and runs: find, read and present them."""
