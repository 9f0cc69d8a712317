"""`python -m tests.fakes.model_server --script FILE [--port N] [--port-file FILE] [--log FILE]`.

Says `{"port": n}` on a line when it listens. On TERM or INT it says which steps are left and exits: 0 when all were
taken and every request was valid, else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from tests.fakes.model_server import script
from tests.fakes.model_server.serving import Entry, ScriptedServer, listening


class Log:
    """One JSON line an entry, in the file."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a") if path else None

    def note(self, entry: Entry) -> None:
        if self._file is not None:
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            self._file.flush()


def say(line: str) -> None:
    """Write `line` to the parent process, if it still reads."""
    try:
        sys.stdout.write(line)
        sys.stdout.flush()
    except BrokenPipeError:
        pass


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.model_server")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--log", type=Path)
    return parser.parse_args()


async def serve(asked: argparse.Namespace) -> int:
    """Serves until a signal; the exit code."""
    server = ScriptedServer(script.read(asked.script), Log(asked.log).note)
    async with listening(server, asked.port) as port:
        stop = asyncio.Event()
        for one in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(one, stop.set)
        if asked.port_file:
            asked.port_file.with_suffix(".new").write_text(str(port))
            asked.port_file.with_suffix(".new").rename(asked.port_file)
        say(json.dumps({"port": port}) + "\n")
        await stop.wait()
    left = server.player.unused
    say(json.dumps({"left": left, "faults": server.faults}) + "\n")
    sys.stderr.write(f"steps left: {', '.join(left)}\n" if left else "all steps consumed\n")
    return 1 if left or server.faults else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(serve(arguments())))
