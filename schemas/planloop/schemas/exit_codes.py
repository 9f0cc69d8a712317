"""What an exit code says beyond its number, for who does not know signals by heart."""

from __future__ import annotations

from typing import Final

_SIGNALS: Final = {
    1: "its terminal or session was closed",
    2: "interrupted",
    4: "it crashed, its program is broken or for another processor",
    6: "it gave up by itself",
    7: "it crashed",
    8: "it crashed at an impossible calculation",
    9: "killed, by somebody or by a machine short of memory",
    11: "it crashed, at memory that is not its own",
    13: "nobody read what it wrote",
    15: "it was told to end",
    24: "it used more processor time than it may",
    25: "it wrote a larger file than it may",
    31: "it called for what it may not",
}
_FIRST_OF_SIGNALS: Final = 128  # A shell, and whatever runs one, adds a signal to this.


def meaning(code: int | None) -> str:
    """`signal 9: killed, …` for a `code` that means a signal, as one below 0 does too; empty for a plain number."""
    if code is None:
        return ""
    number = -code if code < 0 else code - _FIRST_OF_SIGNALS
    return f"signal {number}: {_SIGNALS[number]}" if number in _SIGNALS else ""


def words(code: int | None) -> str:
    """`exit code 3`, `exit code 137 (signal 9: killed, …)`."""
    said = meaning(code)
    return f"exit code {code}" + (f" ({said})" if said else "")
