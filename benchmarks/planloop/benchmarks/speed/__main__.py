"""Run every script of this folder in a separate process, so that none warms up another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the scripts named on the command line, or all; return how many failed."""
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(file.stem for file in here.glob("*.py") if not file.stem.startswith("_"))
    failed = 0
    for name in names:
        print(f"== {name}", flush=True)
        failed += (
            subprocess.run([sys.executable, "-m", f"planloop.benchmarks.speed.{name}"], check=False).returncode != 0
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
