"""Real tool servers, as `make servers` installs them from the registries."""

from __future__ import annotations

import shutil
from pathlib import Path

INSTALLED = Path(__file__).parents[2] / ".venv" / "servers"
NODE = INSTALLED / "node" / "node_modules" / ".bin"
PYTHON = INSTALLED / "python" / "bin"

# With the path of `node`: where it comes from PyPI, it is not on the PATH that plans give to their servers.
PROGRAM = shutil.which("node") or "node"
EVERYTHING = [PROGRAM, str(NODE / "mcp-server-everything")]
FILES = [PROGRAM, str(NODE / "mcp-server-filesystem")]
GIT = [str(PYTHON / "mcp-server-git")]
TIME = [str(PYTHON / "mcp-server-time")]
MODEL = INSTALLED / "model" / "bin" / "python"
"""The Python that has a small model and its server, as `make model` installs them."""
