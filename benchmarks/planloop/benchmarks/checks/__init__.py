"""Checks of what an agent did: pure functions of the evidence of one attempt."""
