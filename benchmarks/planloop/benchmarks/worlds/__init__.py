"""Simulated worlds: tools over tables of data, for suites that measure which tools an agent calls.

Pure: a call returns the next state of the world and the answer. A plan serves a world as a tool server with
`mcp: {calendar: {world: FILE}}`. The agent's status then holds the state of its world.
"""
