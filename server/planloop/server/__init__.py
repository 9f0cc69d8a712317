"""The HTTP API of a plan: the owner's unix socket, the gateway of `plan serve`, and the MCP server of `plan mcp`.

If no owner is running, commands use `OwnerService` directly.
"""
