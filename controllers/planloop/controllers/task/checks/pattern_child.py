"""Search a text for a regular expression, in a process of its own. Standard library only.

Reads the pattern in hex from the first line of stdin and the text from the rest. The exit code is the answer.
"""

import re
import sys

FOUND, NOT_FOUND, NOT_A_PATTERN = 0, 10, 11


def main() -> int:
    """Search once; return the exit code."""
    pattern = bytes.fromhex(sys.stdin.buffer.readline().decode()).decode()
    try:
        wanted = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        sys.stdout.write(str(error))
        return NOT_A_PATTERN
    return NOT_FOUND if wanted.search(sys.stdin.buffer.read().decode(errors="replace")) is None else FOUND


if __name__ == "__main__":
    sys.exit(main())
