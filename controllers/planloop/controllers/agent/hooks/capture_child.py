"""Run a program and capture stdout and stderr apart: `capture_child.py BYTES_MAX ARG…`; stdin is passed on.

It prints one JSON line: `code`, `out` and `err`, or `fault` if the program could not be started or printed too much. It
imports only the standard library. Processes of the program stay in the process group that the owner can stop.
"""

import json
import subprocess
import sys
import threading
from typing import IO

CHUNK = 1 << 16
LINGER_S = 0.5
OBJECTION_EXIT = 2
WORDS_BYTES = 1 << 14  # The longest error message.
ENDLESS_BYTES = 64 << 20


def read_beginning(pipe: IO[bytes], into: bytearray, bytes_max: int, program: "subprocess.Popen[bytes]") -> None:
    """Read `pipe` to its end and keep the beginning in `into`, with one extra byte if it was longer.

    A program that prints more than `ENDLESS_BYTES` is killed, and the pipe is closed.
    """
    read = 0
    while chunk := pipe.read1(CHUNK):  # type: ignore[attr-defined]
        into.extend(chunk[: bytes_max + 1 - len(into)])
        read += len(chunk)
        if read > ENDLESS_BYTES:
            program.kill()
            pipe.close()
            return


def run_captured(argv: list[str], bytes_max: int) -> dict[str, object]:
    """The exit code and output of the program. An objection (exit code 2) counts even with too much output."""
    try:
        program = subprocess.Popen(argv, stdin=sys.stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except (OSError, ValueError) as error:
        return {"fault": f"{argv[0]}: {error}"}
    assert program.stdout is not None and program.stderr is not None, "both are pipes"
    out, err = bytearray(), bytearray()
    readers = [
        threading.Thread(target=read_beginning, args=(pipe, into, bytes_max, program), daemon=True)
        for pipe, into in ((program.stdout, out), (program.stderr, err))
    ]
    for reader in readers:
        reader.start()
    code = program.wait()
    for reader in readers:
        reader.join(LINGER_S)  # A process that the program left running may keep the pipes open, so do not wait longer.
    if code == OBJECTION_EXIT:
        out, err = out[:WORDS_BYTES], err[:WORDS_BYTES]
    elif max(len(out), len(err)) > bytes_max:
        return {"fault": f"it printed more than {bytes_max} bytes"}
    return {"code": code, "out": out.decode(errors="replace"), "err": err[:WORDS_BYTES].decode(errors="replace")}


def main() -> None:
    """One run."""
    line = json.dumps(run_captured(sys.argv[2:], int(sys.argv[1])), ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(line.encode(errors="replace"))


if __name__ == "__main__":
    main()
