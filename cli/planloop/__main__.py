"""`python -m planloop` is `plan`. Python looks for what it loads in the folder it was started in first, also later on:
that is the plan's, where agents write."""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from planloop.cli.main import main

main()
