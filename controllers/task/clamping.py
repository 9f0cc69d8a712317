"""Outputs cut to what people and models read: head and tail, with the middle named by its size.

The whole output is kept as a blob by whoever ran the command; here is only what is shown of it.
"""

from __future__ import annotations

from schemas import limits


def clamp(output: bytes, size_bytes: int = limits.OUTPUT_SHOWN_BYTES) -> str:
    """`output` as text, at most about `size_bytes`: half from its head, half from its tail."""
    if len(output) <= size_bytes:
        return output.decode(errors="replace")
    half = size_bytes // 2
    left_out = len(output) - 2 * half
    head, tail = output[:half].decode(errors="replace"), output[-half:].decode(errors="replace")
    return f"{head}\n… {left_out} bytes left out …\n{tail}"


def last_line(output: bytes, chars: int = 200) -> str:
    """The last line that says something, at most `chars` long; empty when there is none."""
    for line in reversed(output[-4096:].decode(errors="replace").splitlines()):
        if line.strip():
            return line.strip()[:chars]
    return ""
