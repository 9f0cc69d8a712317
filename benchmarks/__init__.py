"""Measurements. `speed/` times the product against floors taken in the same run; suites for agents come beside it."""
