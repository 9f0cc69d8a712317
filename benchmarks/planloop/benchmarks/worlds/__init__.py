"""Simulated worlds: tools over tables, as data, for suites that measure which tools an agent calls.

Pure: `call(world, tool, arguments)` gives the world after the call and the answer. A plan serves one as a tool server
by `mcp: {calendar: {world: FILE}}`; then the state of an agent's world is in the agent's own status.
"""

from planloop.benchmarks.worlds.calling import call, replay
from planloop.benchmarks.worlds.comparing import differences
from planloop.benchmarks.worlds.filing import WorldFile, file_of
from planloop.benchmarks.worlds.keeping import with_kept
from planloop.benchmarks.worlds.laying import for_tasks, laid, with_tools
from planloop.benchmarks.worlds.reading import ReadWorld, read_world, world_of
from planloop.benchmarks.worlds.world import Answer, World, WorldTool

__all__ = [
    "Answer",
    "ReadWorld",
    "World",
    "WorldFile",
    "WorldTool",
    "call",
    "differences",
    "file_of",
    "for_tasks",
    "laid",
    "read_world",
    "replay",
    "with_kept",
    "with_tools",
    "world_of",
]
