"""`python -m planloop` is `plan`. Python looks for what it loads in the folder it was started in first, also later on:
that is the plan's, where agents write."""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}{os.sep}planloop"):
    del sys.path[0]

from planloop.cli.main import main

main()
