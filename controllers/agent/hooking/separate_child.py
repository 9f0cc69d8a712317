"""Runs a program with its output and its complaints apart: `separate_child.py BYTES_MAX ARG…`, stdin goes to it.

Prints one JSON line: `code`, `out`, `err`, or `missing` when it could not be started. Needs nothing but the standard
library. What the program starts stays in the process group that the owner can stop.
"""

import json
import subprocess
import sys


def main() -> None:
    """One run."""
    bytes_max, argv = int(sys.argv[1]), sys.argv[2:]
    try:
        ended = subprocess.run(argv, stdin=sys.stdin, capture_output=True, check=False)
    except OSError as error:
        answer: dict[str, object] = {"missing": f"{argv[0]}: {error.strerror}"}
    else:
        out, err = (text[:bytes_max].decode(errors="replace") for text in (ended.stdout, ended.stderr))
        answer = {"code": ended.returncode, "out": out, "err": err}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
