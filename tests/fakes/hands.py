"""Models that all write the same files: each reply depends only on the conversation, whichever process is killed.

Each adds lines of its own to files that everybody writes, by four habits in turn: reading and editing in two turns, in
one, under a lock that it asks for, and under two locks taken one after the other, which is how rings come about. It
tries again whatever is refused. `Hands` answers in the place of a `Player`; `serving` puts it behind HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from tests.fakes.model_server.script import Player, Question, Step
from tests.fakes.model_server.serving import Entry, ScriptedServer

END = "END"
"""The last line of each file: a new line is put before it."""

RINGS: Final = 3
"""Which of the four habits takes two locks one after the other."""

Call = dict[str, Any]


def drawn(*what: object) -> int:
    """A number that is the same for the same words."""
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:4], "big")


def file_of(agent: str, number: int, files: int, more: str = "") -> str:
    """The file that the `number`-th line of `agent` goes to."""
    if agent.startswith("m") and number % 4 == RINGS:
        return pair_of(agent, number)[1]
    return f"f{drawn(agent, number, more) % files:02}.txt"


def pair_of(agent: str, number: int) -> tuple[str, str]:
    """Two locks that are taken one after the other, by half of all in one order and by half in the other."""
    return ("f00.txt", "f01.txt") if drawn(agent, number, "order") % 2 else ("f01.txt", "f00.txt")


def line_of(agent: str, number: int) -> str:
    """That line; no other is like it."""
    return f"{agent}-{number:03}"


@dataclass(slots=True)
class _Past:
    """What a conversation contains about the current line: the calls that succeeded since the previous line."""

    lines: int = 0
    held: list[str] = field(default_factory=list)
    has_read: bool = False

    def take(self, name: str, arguments: Call, text: str) -> None:
        """One more call with its result."""
        is_ok = not text.startswith(("Failed", "Denied", "Cancelled", "Unknown"))
        match name:
            case "edit" if is_ok:
                self.lines += 1
                self.has_read = False
            case "read":
                self.has_read = is_ok
            case "lock" if is_ok:
                self.held += arguments["paths"]
            case "lock":
                self.held.append("")  # Refused: what is held is given back before another try.
            case "release":
                self.held = []


def past_of(messages: list[dict[str, Any]]) -> _Past:
    """What the conversation so far comes to."""
    past, calls = _Past(), dict[str, Call]()
    for message in messages:
        for call in message.get("tool_calls") or ():
            calls[call["id"]] = call["function"]
        if message["role"] == "tool":
            call = calls[message["tool_call_id"]]
            past.take(call["name"], json.loads(call["arguments"]), str(message["content"]))
    return past


def next_calls(agent: str, past: _Past, lines: int, files: int) -> list[Call]:
    """The calls of the next reply; none when every line is written and nothing is held."""
    if past.lines >= lines or "" in past.held:
        return [_call("release")] if past.held else []
    number = past.lines
    path = file_of(agent, number, files)
    edit = _call("edit", path=path, old=END, new=f"{line_of(agent, number)}\n{END}")
    read = _call("read", path=path, lines=1)
    match number % 4:
        case 0:
            wanted: list[str] = []
        case 1 if not past.has_read:
            return [*_given_back(past), read, edit]
        case 1:
            wanted = []
        case 2:
            wanted = [path]
        case _:
            wanted = list(pair_of(agent, number))
    if past.held and not set(past.held) <= set(wanted):
        return [_call("release")]
    for each in dict.fromkeys(wanted):
        if each not in past.held:
            return [_call("lock", paths=[each], reason=f"for {line_of(agent, number)}")]
    return [edit] if past.has_read else [read]


def _given_back(past: _Past) -> list[Call]:
    return [_call("release")] if past.held else []


def _call(name: str, **arguments: Any) -> Call:
    return {"name": name, "arguments": arguments}


class Hands(Player):
    """Answers every question for the agent whose name the model has; `lines` each, over `files` files.

    An answer takes up to `delay_s` seconds.
    """

    def __init__(self, lines: int, files: int, delay_s: float = 0.0) -> None:
        super().__init__([])
        self._lines, self._files, self._delay_s = lines, files, delay_s

    def take(self, question: Question) -> Step:
        """See `Player.take`."""
        calls = next_calls(question.model, past_of(question.messages), self._lines, self._files)
        text = "Next." if calls else "All lines are written."
        delay_s = self._delay_s * (drawn(question.model, len(question.messages)) % 100) / 100
        return Step(number=1, name="hands", reply={"text": text, "calls": calls}, delay_s=delay_s)


@contextmanager
def serving(hands: Hands) -> Iterator[str]:
    """The URL of a server that `hands` answers for, on a thread of its own."""
    loop, stop, ports, is_up = asyncio.new_event_loop(), asyncio.Event(), list[int](), threading.Event()

    async def run() -> None:
        runner = web.AppRunner(ScriptedServer(hands, _unnoted).app(), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ports.append(runner.addresses[0][1])
        is_up.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert is_up.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}/v1"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def _unnoted(_: Entry) -> None:
    """The log of these is not read."""
