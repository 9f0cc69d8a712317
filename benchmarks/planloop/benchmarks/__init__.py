"""Suites for agents, compiled to plans and judged, and in `speed/` the product timed against floors of the same run."""
