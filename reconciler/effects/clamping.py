"""Outputs of commands cut for whoever reads them. The whole output is kept as a blob by whoever ran the command."""

from __future__ import annotations

from schemas import limits


def clamped(output: bytes, shown_bytes: int = limits.OUTPUT_SHOWN_BYTES) -> str:
    """`output` as text, at most about `shown_bytes`: half of them head, half tail, cut at line ends where near."""
    if len(output) <= shown_bytes:
        return output.decode(errors="replace")
    half = shown_bytes // 2
    head, tail = output[:half], output[-half:]
    if (cut := head.rfind(b"\n")) > half // 2:
        head = head[: cut + 1]
    if 0 <= (cut := tail.find(b"\n")) < half // 2:
        tail = tail[cut + 1 :]
    left_out = len(output) - len(head) - len(tail)
    note = f"\n[… {left_out} of {len(output)} bytes left out …]\n"
    return head.decode(errors="replace") + note + tail.decode(errors="replace")


def last_line(output: bytes, chars: int = 200) -> str:
    """The last line that says something, at most `chars` characters of it; empty when there is none."""
    for line in reversed(output[-4096:].decode(errors="replace").splitlines()):
        if line.strip():
            return line.strip()[:chars]
    return ""
