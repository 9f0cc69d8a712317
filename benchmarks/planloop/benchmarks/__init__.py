"""Benchmarks: suites of cases, run over models, graded, scored and reported."""
