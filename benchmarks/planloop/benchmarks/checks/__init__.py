"""Checks that only look at what an agent did: pure functions of the evidence of one attempt."""
