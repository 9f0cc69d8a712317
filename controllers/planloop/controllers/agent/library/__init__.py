"""Agents that are code and ship with the product: `python: lib:NAME` is the function `step` of `NAME.py` here.

Each runs in a process of its own, as any Python decider does, and needs nothing but the standard library.
"""
