"""`plan mcp`: MCP clients play agents of a plan, in a process of its own."""
