"""The first program in a sandbox: checks folder and seccomp filter, drops the keyring, runs the command.

It also leaves the session, restores signal handling, sets limits, and connects to the proxy.

Run as `python -I -S entry.py FOLDER KEYCTL BOUND DOOR PORT ARGV…`: FOLDER is the device and inode of the folder,
KEYCTL the number of that system call, BOUND the maximal number of processes, DOOR the unix socket of the proxy outside
and PORT the port of the proxy inside; `-` for none. It imports nothing else of planloop.

The command's variables have other names until here, so that they do not affect the programs outside: a task's
`LD_PRELOAD` is only for its command.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence

NONE = "-"
PREFIX = "PLANLOOP_GIVEN_"
MOVED_EXIT = 126
PR_GET_SECCOMP, PR_SET_SECCOMP, FILTERED = 21, 22, 2
JOIN_SESSION_KEYRING = 1
NOT_FOUND_EXIT = 127
PIECE_BYTES = 1 << 16
CONNECTIONS_MAX = 256
_BACK = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)


def hide_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Rename the variables `env` of a command for the way into the sandbox."""
    return {f"{PREFIX}{name}": value for name, value in env.items()}


def restore_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Inverse of `hide_variables` for all variables `env` of this process."""
    own = {name.removeprefix(PREFIX): value for name, value in env.items() if name.startswith(PREFIX)}
    return {**{name: value for name, value in env.items() if not name.startswith(PREFIX)}, **own}


def main(arguments: Sequence[str]) -> int:
    """Become the command. Returns only if it cannot be run."""
    folder, keyctl, bound, door, port, *argv = arguments
    found = os.stat(".")  # noqa: PTH116 - what starts each command imports little
    is_moved = folder != f"{found.st_dev}:{found.st_ino}"
    if why := "its folder was replaced" if is_moved else _keys_left(int(keyctl)):
        print(f"{why}: the command was not run", file=sys.stderr)  # noqa: T201
        return MOVED_EXIT
    for number in _BACK:  # Bubblewrap ignores these signals, so that the command gets its grace period.
        signal.signal(number, signal.SIG_DFL)
    if door != NONE:
        _open_way(door, int(port))
    if bound != NONE:
        resource.setrlimit(resource.RLIMIT_NPROC, (int(bound), int(bound)))
    try:
        os.execvpe(argv[0], argv, restore_variables(os.environ))  # noqa: TID251 - a program of its own
    except OSError as error:
        print(f"{argv[0]}: not found in the sandbox: {error.strerror}", file=sys.stderr)  # noqa: T201
        return NOT_FOUND_EXIT


def _keys_left(keyctl: int) -> str:
    """Join a new session keyring and refuse every later call to `keyctl`. Return the reason if that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != FILTERED:
        return "the seccomp filter is not active"
    # ENOSYS: the kernel has no keys. EPERM: an outer filter refuses the call, so the keys are not accessible.
    if libc.syscall(keyctl, JOIN_SESSION_KEYRING, None) < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        return f"cannot create a session keyring: {os.strerror(ctypes.get_errno())}"
    # Load the number. If it is `keyctl`, return EPERM, else allow. The outer filter refuses other ABIs.
    lines = ((0x20, 0, 0, 0), (0x15, 0, 1, keyctl), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
    whole = struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(program))
    if libc.prctl(PR_SET_SECCOMP, FILTERED, whole, 0, 0):
        return f"cannot extend the seccomp filter: {os.strerror(ctypes.get_errno())}"
    return ""


def _open_way(door: str, port: int) -> None:
    """Listen for proxy connections before the command starts, in a process that lives as long as the sandbox."""
    listening = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS_MAX)
    if os.fork():
        listening.close()
        return
    os.setsid()  # Signals to the group are for the command.
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    while True:
        inside, _ = listening.accept()
        threading.Thread(target=_carry, args=(inside, door), daemon=True).start()


def _carry(inside: socket.socket, door: str) -> None:
    outside = socket.socket(socket.AF_UNIX)
    with inside, outside, contextlib.suppress(OSError):
        outside.connect(door)
        back = threading.Thread(target=_pour, args=(outside, inside), daemon=True)
        back.start()
        _pour(inside, outside)
        back.join()


def _pour(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
