"""Agents in Python that are part of the product: `python: lib:NAME` is the function `step` of `NAME.py` here.

Like any Python decider, each runs in its own process. It needs only the standard library.
"""
