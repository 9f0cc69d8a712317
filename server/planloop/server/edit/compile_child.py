"""The process that compiles texts. It reads requests from standard input, one at a time.

It is started with `-P`, so that it loads no modules from the plan's folder, where agents write. It ends after some
minutes without a request, and when its parent process ends.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
from typing import IO, Any, Final

IDLE_S: Final = 300.0
HEAD: Final = struct.Struct(">Q")  # The number of bytes that follow.


def write_value(pipe: IO[bytes], value: object) -> None:
    """Write one value, pickled: both ends of the pipe are planloop."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(HEAD.pack(len(content)) + content)
    pipe.flush()


def read_value(pipe: IO[bytes]) -> Any:
    """Read the next value. Raises EOFError if the other end has closed the pipe."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        raise EOFError
    (size,) = HEAD.unpack(head)
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return pickle.loads(content)


def main() -> None:
    """Answer requests until none arrives for `IDLE_S`. An exception ends the process, which its parent notices."""
    requests = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # Printed text must not get between the answers.
        while select.select([requests], [], [], IDLE_S)[0]:
            try:
                work, given = read_value(requests)
            except EOFError:
                return
            write_value(answers, work(*given))


if __name__ == "__main__":
    main()
