"""Simulated worlds: tools over tables, as data, for suites that measure which tools an agent calls.

Pure: a call returns the world after it and the answer. A plan serves a world as a tool server by `mcp: {calendar:
{world: FILE}}`; the agent's own status then keeps the state of its world.
"""
