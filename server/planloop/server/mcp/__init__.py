"""`plan mcp`: programs from outside play agents of a plan, over MCP, in a process of its own.

The log is followed as it is for the web page; whatever changes something is handed to the plan's owner, where each call
is one of an ordinary turn of the agent. So nothing here decides what an agent may do.
"""
