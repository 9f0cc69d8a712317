"""Suites of benchmarks as people run them: found, compiled, run as plans, gone on with, and reported."""
