"""Changes in a folder are reported, also when the kernel has no inotify watches left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LAST_FILES = """
import os, resource, sys
from pathlib import Path
import anyio
from planloop.client.folder_events import watch_folders

async def main():
    folder = Path(sys.argv[1])
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    stop, seen = anyio.Event(), 0
    async for batch in watch_folders([folder], stop):
        assert batch == set(), batch
        seen += 1
        if seen == 2:
            stop.set()
    print(seen)

anyio.run(main)
"""


def test_folder_is_polled_where_no_watch_is_available(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAST_FILES, str(tmp_path)], capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
