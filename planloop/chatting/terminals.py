"""Terminals for a conversation: a screen with line editing and history, and plain lines from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from planloop.streams import shown, styled
from schemas import limits

CLEAR: Final = "\x1b[K"  # What is right of the cursor.


class Pipe:
    """Lines from standard input; answers on standard output and nothing else there."""

    is_live = False

    def read(self, prompt: str) -> str | None:
        del prompt
        line = sys.stdin.readline()
        return line if line else None

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


class Screen:
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

    def say(self, text: str) -> None:
        click.echo(text)

    def flow(self, text: str) -> None:
        click.echo(text, nl=False)

    def note(self, text: str) -> None:
        styled(click.style(shown(text), dim=True) + "\n", sys.stdout)

    def interject(self, text: str) -> None:
        """Takes the place of the prompt, which is written again below it with what has been typed."""
        typed = f"{self._prompt}{self._readline.get_line_buffer()}" if self._prompt else ""
        styled(f"\r{CLEAR}{click.style(shown(text), dim=True)}\n{shown(typed)}", sys.stdout)
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
