"""Events of a benchmark run: append-only lines in `events.jsonl`, projected from the log of the run's plan."""
