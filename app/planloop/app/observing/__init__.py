"""What a plan does, for monitoring: spans and figures projected from its log, told to those who collect them.

`spans.py` and `figures.py` are pure folds of records; `telemetry.py` hands spans to OpenTelemetry, `exposition.py`
writes figures for Prometheus, `top.py` makes the rows of `plan top`. All of it is off unless somebody asks.
"""
