"""Grade the result of an attempt where the agent cannot interfere."""
