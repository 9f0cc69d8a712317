"""A program that searches a text for a pattern: the pattern in hex on the first line of stdin. Standard library only.

Its exit code is the answer. Needs nothing but the standard library.
"""

import re
import sys

FOUND, NOT_FOUND, NOT_A_PATTERN = 0, 10, 11


def main() -> int:
    """One search."""
    pattern = bytes.fromhex(sys.stdin.buffer.readline().decode()).decode()
    try:
        wanted = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        sys.stdout.write(str(error))
        return NOT_A_PATTERN
    return NOT_FOUND if wanted.search(sys.stdin.buffer.read().decode(errors="replace")) is None else FOUND


if __name__ == "__main__":
    sys.exit(main())
