"""Compile a suite and its contestants to a run: draw decoys, fill placeholders, compute keys. Pure."""
