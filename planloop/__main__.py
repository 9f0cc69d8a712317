"""`python -m planloop` is `plan`."""

from __future__ import annotations

from planloop.cli.main import main

main()
