"""`python -m tests.fakes.model_server --script FILE [--port N] [--port-file FILE] [--log FILE] [--events]`.

Says `{"port": n}` on a line when it listens. On TERM or INT it says which steps are left and exits: 0 when all were
taken and every request was valid, else 1. `--events` prints the log to stdout as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from aiohttp import web

from tests.fakes.model_server import script
from tests.fakes.model_server.serving import Entry, ScriptedServer


class Log:
    """One JSON line an entry, in the file and on stdout where asked for."""

    def __init__(self, path: Path | None, *, is_printed: bool) -> None:
        self._file = path.open("a") if path else None
        self._is_printed = is_printed

    def note(self, entry: Entry) -> None:
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        if self._file is not None:
            self._file.write(line)
            self._file.flush()
        if self._is_printed:
            say(line)


def say(line: str) -> None:
    """Writes `line` to whoever started the program, if they still listen."""
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
    parser.add_argument("--events", action="store_true")
    return parser.parse_args()


async def serve(asked: argparse.Namespace) -> int:
    """Serves until a signal; the exit code."""
    server = ScriptedServer(script.read(asked.script), Log(asked.log, is_printed=asked.events).note)
    runner = web.AppRunner(server.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", asked.port)
    await site.start()
    stop = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    port = runner.addresses[0][1]
    if asked.port_file:
        asked.port_file.with_suffix(".new").write_text(str(port))
        asked.port_file.with_suffix(".new").rename(asked.port_file)
    say(json.dumps({"port": port}) + "\n")
    await stop.wait()
    await runner.cleanup()
    left = server.player.unused
    say(json.dumps({"left": left, "faults": server.faults}) + "\n")
    sys.stderr.write(f"steps left: {', '.join(left)}\n" if left else "all steps consumed\n")
    return 1 if left or server.faults else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(serve(arguments())))
