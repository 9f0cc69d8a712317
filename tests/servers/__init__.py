"""Real tool servers, as `make servers` installs them from the registries."""

from __future__ import annotations

from pathlib import Path

INSTALLED = Path(__file__).parents[2] / ".venv" / "servers"
NODE = INSTALLED / "node" / "node_modules" / ".bin"
PYTHON = INSTALLED / "python" / "bin"

EVERYTHING = [str(NODE / "mcp-server-everything")]
FILES = [str(NODE / "mcp-server-filesystem")]
GIT = [str(PYTHON / "mcp-server-git")]
TIME = [str(PYTHON / "mcp-server-time")]
