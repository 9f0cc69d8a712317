"""`plan mcp`: the MCP server through which external agents work on tasks of a plan."""
