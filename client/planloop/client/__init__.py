"""What commands and servers share: plan paths, references, exit codes, access to the owner, rendering."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
"""Of the package as well. Asking for the version of what is installed would take a tenth of a command's start."""
