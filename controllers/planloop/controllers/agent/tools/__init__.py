"""The tools of agents, their arguments, and the workspace they work in."""
