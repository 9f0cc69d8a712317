"""Simulated worlds: tools over tables, as data, for suites that measure which tools an agent calls.

Pure: `call(world, tool, arguments)` gives the world after the call and the answer. A plan serves one as a tool server
by `mcp: {calendar: {world: FILE}}`; then the state of an agent's world is in the agent's own status.
"""
