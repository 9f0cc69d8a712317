"""Compile a suite and its contestants into a run: draw choices, fill placeholders, compute keys. Pure."""
