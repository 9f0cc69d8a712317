"""Speed measurements: one script for each row of docs/contribute/speed.md. Each prints its figures
as ratios against a floor taken in the same run.

`python -m planloop.benchmarks.speed` runs them all; `python -m planloop.benchmarks.speed.plan_read` runs one. They
assert nothing.
"""
