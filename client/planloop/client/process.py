"""What a command uses of its process: the time, the environment, and standard streams without control characters."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

TELEMETRY_SWITCH: Final = "PLANLOOP_TELEMETRY"
"""The variable that asks an owner to export telemetry."""


def now() -> float:
    """Seconds since 1970."""
    return time.time()


def environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


def command_line(*arguments: str) -> list[str]:
    """How to start another `plan` of this very installation, and nothing of the folder that it is started in."""
    return [sys.executable, "-P", "-m", "planloop", *arguments]


# Standard streams of a command: reopen closed ones, escape control characters.
#
# A closed stream, as by `plan get >&-`, is opened on nothing. Otherwise the next file to be opened, such as the log,
# would take its number, and whatever writes to stdout or stderr would write into that.
#
# Most printed text was written by models, tools and servers. A terminal obeys control characters: they could clear it,
# change its title, hide a line or reverse the direction of writing. So they are printed as escapes, except in our own
# styles.

STREAM_NAMES: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
CONTROL_CHARACTERS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0 but for tab and line break, DEL and C1, and what overrides the direction of writing."""


def open_closed_streams() -> None:
    """Open stdin, stdout and stderr on /dev/null if they are closed."""
    for number, (name, mode) in enumerate(STREAM_NAMES):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Takes the lowest free number, which is this one.
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def escape_control_characters() -> None:
    """From here on nothing that is printed to stdout or stderr is obeyed by a terminal, but for `styled`."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, EscapingStream(getattr(sys, name)))


def escaped(text: str) -> str:
    r"""`text` with control characters as `\x1b` and the like; line ends of any system as `\n`."""
    return CONTROL_CHARACTERS.sub(_escaped_character, text.replace("\r\n", "\n"))


def write_styled(text: str, stream: TextIO) -> None:
    """Writes `text` of ours with its colours; what is foreign in it has been through `shown`."""
    underlying_stream(stream).write(text)


def underlying_stream(stream: TextIO) -> TextIO:
    """What `stream` writes to, for a screen that paints: what is foreign in it has been through `shown`."""
    return stream.stream if isinstance(stream, EscapingStream) else stream


class EscapingStream:
    """A text stream that is all of `stream`, except that what it writes goes through `shown`.

    Raises BrokenPipeError also where a terminal has gone: its reader has left, as that of a pipe does.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with _as_broken_pipe():
            self.stream.write(escaped(text))
        return len(text)

    def flush(self) -> None:
        with _as_broken_pipe():
            self.stream.flush()

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def _as_broken_pipe() -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        if fault.errno == errno.EIO:
            raise BrokenPipeError(*fault.args) from fault
        raise


def _escaped_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
