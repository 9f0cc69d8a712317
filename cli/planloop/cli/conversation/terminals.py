"""Terminals of a conversation: a screen with line editing, and plain lines from a pipe."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from planloop.client.process import escaped, write_styled
from planloop.schemas import limits

CLEAR: Final = "\x1b[K"  # What is right of the cursor.
READ_BYTES: Final = 65_536  # At once; a terminal gives a line at a time.


class PipeTerminal:
    """Lines from standard input; answers on standard output and nothing else there."""

    is_live = False

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._read = bytearray()  # Input that was not returned as a line yet.
        self._has_ended = False

    def read(self, prompt: str) -> str | None:
        del prompt
        while not self._has_line():
            self._fill()
        return self.line()

    def hears(self, other: int, *, only: bool) -> bool:
        """See the protocol. The end of input is not a line: earlier questions are still answered."""
        while not only and not self._has_ended and not self._has_line():
            if other in select.select([self._input, other], [], [])[0]:
                return False
            self._fill()
        if not only and self._read:
            return True
        select.select([other], [], [])
        return False

    def line(self) -> str | None:
        line, mark, rest = self._read.partition(b"\n")
        self._read = rest
        return (line + mark).decode(errors="replace") if line or mark else None

    def _has_line(self) -> bool:
        return self._has_ended or b"\n" in self._read

    def _fill(self) -> None:
        came = os.read(self._input, READ_BYTES)
        self._read += came
        self._has_ended = not came

    def say(self, text: str) -> None:
        if text:
            click.echo(text)

    def flow(self, text: str) -> None:
        """Whole answers only: a reader of a pipe wants lines."""

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def interject(self, text: str) -> None:
        """As `note`: a pipe writes no line that could be disturbed."""
        self.note(text)


class EditingTerminal:
    """A person at a terminal. Arrow keys edit and recall lines, also those of earlier conversations; Tab completes."""

    is_live = True

    def __init__(self, history: Path, words: Callable[[], Sequence[str]]) -> None:
        import readline

        self._readline = readline
        self._history = history
        self._words = words
        self._found: list[str] = []
        self._prompt = ""  # Of the line that is being written.
        with suppress(OSError):
            readline.read_history_file(history)
        readline.set_history_length(limits.CHAT_LINES_KEPT)
        readline.set_completer_delims(" ")
        readline.set_completer(self._completion)
        readline.parse_and_bind("tab: complete")

    def read(self, prompt: str) -> str | None:
        self._prompt = prompt
        try:
            return input(prompt)
        except EOFError:
            click.echo()
            return None
        finally:
            self._prompt = ""

    def hears(self, other: int, *, only: bool) -> bool:
        """As the protocol says. Between prompts the terminal itself edits the line, and gives it when it is whole."""
        ready = select.select([other] if only else [sys.stdin.fileno(), other], [], [])[0]
        return other not in ready

    def line(self) -> str | None:
        return os.read(sys.stdin.fileno(), READ_BYTES).decode(errors="replace") or None

    def say(self, text: str) -> None:
        click.echo(text)

    def flow(self, text: str) -> None:
        click.echo(text, nl=False)

    def note(self, text: str) -> None:
        write_styled(click.style(escaped(text), dim=True) + "\n", sys.stdout)

    def interject(self, text: str) -> None:
        """Takes the place of the prompt, which is written again below it with what has been typed."""
        typed = f"{self._prompt}{self._readline.get_line_buffer()}" if self._prompt else ""
        write_styled(f"\r{CLEAR}{click.style(escaped(text), dim=True)}\n{escaped(typed)}", sys.stdout)
        sys.stdout.flush()

    def close(self) -> None:
        """Keeps what was written, readable by its writer alone."""
        with suppress(OSError):
            self._history.touch(mode=0o600)
            self._readline.write_history_file(self._history)

    def _completion(self, text: str, state: int) -> str | None:
        if state == 0:  # It is asked for one word after the other; what there is may be others the next time.
            self._found = [f"/{word}" for word in self._words() if f"/{word}".startswith(text)]
        found = self._found if text.startswith("/") else []
        return found[state] if state < len(found) else None
