"""Tool servers that speak the Model Context Protocol: started when needed, supervised, and asked on behalf of agents.

It meets the agents in the store: they read what a server offers from its status, and call through `LiveServers`.
"""

from planloop.controllers.mcp.acting import McpReconciler
from planloop.controllers.mcp.running import Home, Yard
from planloop.controllers.mcp.serving import LiveServers

__all__ = ["Home", "LiveServers", "McpReconciler", "Yard"]
