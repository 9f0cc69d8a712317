"""What an exit code says beyond its number, for who does not know signals by heart."""

from __future__ import annotations

from typing import Final

_SIGNALS: Final = {
    1: "its terminal or session was closed (signal 1)",
    2: "somebody interrupted it (signal 2)",
    4: "it crashed: its program is made for another processor, or broken (signal 4)",
    6: "it gave up by itself (signal 6)",
    7: "it crashed (signal 7)",
    8: "it crashed: an impossible calculation (signal 8)",
    9: "it was killed (signal 9): by somebody, or by the machine when memory ran out",
    11: "it crashed: it used memory that is not its own (signal 11)",
    13: "nobody read what it wrote (signal 13)",
    15: "it was told to end (signal 15)",
    24: "it used more processor time than it may (signal 24)",
    25: "it wrote a larger file than it may (signal 25)",
    31: "it called for what it may not (signal 31)",
}
_FIRST_OF_SIGNALS: Final = 128  # A shell, and whatever runs one, adds a signal to this.


def meaning(code: int | None) -> str:
    """What `code` means, which is below 0 for a signal; empty for a plain number."""
    if code is None:
        return ""
    return _SIGNALS.get(-code if code < 0 else code - _FIRST_OF_SIGNALS, "")


def words(code: int | None) -> str:
    """`exit code 3`, `exit code 137, it was killed (signal 9): …`."""
    said = meaning(code)
    return f"exit code {code}" + (f", {said}" if said else "")
