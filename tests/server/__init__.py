"""The API, the gateway, the MCP server, the Edit page and reports: `planloop.server`."""
