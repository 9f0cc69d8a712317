"""The process that compiles texts, one request at a time over its standard input.

Started with `-P`: the folder it is in is the plan's, where agents write, and nothing is loaded from there. It ends by
itself when nobody has asked for a while, and with whoever started it.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
from typing import IO, Any, Final

IDLE_S: Final = 300.0
HEAD: Final = struct.Struct(">Q")  # How many bytes come.


def write_value(pipe: IO[bytes], value: object) -> None:
    """Writes one value. Both ends are ours, so it travels as Python has it."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(HEAD.pack(len(content)) + content)
    pipe.flush()


def read_value(pipe: IO[bytes]) -> Any:
    """The next value. Raises EOFError when the other end is gone."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        raise EOFError
    (size,) = HEAD.unpack(head)
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return pickle.loads(content)


def main() -> None:
    """Answers until nobody asks. What breaks ends it with a traceback: whoever asked sees that nothing came."""
    asked = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as told:
        os.dup2(2, 1)  # What is printed on the way must not end up among the answers.
        while select.select([asked], [], [], IDLE_S)[0]:
            try:
                work, given = read_value(asked)
            except EOFError:
                return
            write_value(told, work(*given))


if __name__ == "__main__":
    main()
