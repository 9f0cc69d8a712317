"""Build the seccomp filter of tier 2 as a BPF program. Pure.

`seccomp_program(machine)` returns the bytes that `bwrap --seccomp` loads. Both supported machines can run programs of
other ABIs (i386 and x32, 32-bit ARM), whose calls have other numbers; the filter refuses all their calls.

A 64-bit argument is compared by its low word if the kernel takes an int, else by both words.
"""

from __future__ import annotations

import errno
import stat
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from planloop.schemas.frozen import frozen

ALLOW: Final = 0x7FFF_0000
ERRNO: Final = 0x0005_0000
"""Return values of a filter: allow the call, or refuse it with the error number in the low 16 bits."""

_LOAD, _EQUAL, _ANY_OF, _RETURN, _AT_LEAST = 0x20, 0x15, 0x45, 0x06, 0x35
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # Offsets in struct seccomp_data; arguments are little-endian.
_ENTRY: Final = struct.Struct("<HBBI")
_X32: Final = 0x4000_0000
_SET_ID: Final = stat.S_ISUID | stat.S_ISGID
_CREATES: Final = 0o100 | 0o20000000  # O_CREAT and __O_TMPFILE: only with them, `open` takes a mode.
_NAMESPACES: Final = 0x7E02_0080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME.
_FAMILIES: Final = (0, 1, 2, 10, 16)  # Unspecified, unix, IPv4, IPv6, and netlink, with which programs list addresses.
_TERMINAL: Final = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX put input into a terminal.
_JOIN_SESSION_KEYRING: Final = 1
_FIRST_PROCESS: Final = 1


@frozen
class _Machine:
    """A machine: `architecture` as the kernel names it, numbers of calls, and the first number of x32 calls."""

    architecture: int
    numbers: dict[str, int]
    foreign_from: int | None = None


@frozen
class _If:
    """A test of argument `at`: its low word (or the `high` one) has one of `bits`, or is (not) one of `of`."""

    at: int
    bits: int = 0
    of: tuple[int, ...] = ()
    is_negated: bool = False
    high: bool = False


@frozen
class _Rule:
    """Calls to refuse with `error` if all `tests` hold. A machine may not have some of the calls."""

    calls: str
    error: int = errno.EPERM
    tests: tuple[_If, ...] = ()


def _keyed() -> tuple[_Rule, ...]:
    """Rules for keys.

    Joining a session keyring without a name is allowed: `entry.py` does it, and then refuses it, too.
    """
    joins = _If(0, of=(_JOIN_SESSION_KEYRING,), is_negated=True)
    named = [_If(1, of=(0,), is_negated=True, high=high) for high in (False, True)]
    return (_Rule("add_key request_key"), *(_Rule("keyctl", tests=(test,)) for test in (joins, *named)))


_RULES: Final = (
    *_keyed(),
    *(
        _Rule(call, tests=(_If(at, bits=_SET_ID),))
        for call, at in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1), ("mknod", 1),
                         ("mknodat", 2))
    ),
    _Rule("open", tests=(_If(1, bits=_CREATES), _If(2, bits=_SET_ID))),
    _Rule("openat", tests=(_If(2, bits=_CREATES), _If(3, bits=_SET_ID))),
    # A filter cannot read their arguments, which are in memory. Programs work without these calls.
    _Rule("openat2 clone3 io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),
    _Rule("clone unshare", tests=(_If(0, bits=_NAMESPACES),)),
    _Rule("setns pidfd_getfd"),
    _Rule("ptrace", tests=(_If(1, of=(_FIRST_PROCESS,)),)),
    _Rule("process_vm_readv process_vm_writev", tests=(_If(0, of=(_FIRST_PROCESS,)),)),
    *(_Rule("kcmp", tests=(_If(at, of=(_FIRST_PROCESS,)),)) for at in (0, 1)),
    _Rule("socket socketpair", errno.EAFNOSUPPORT, (_If(0, of=_FAMILIES, is_negated=True),)),
    _Rule("ioctl", tests=(_If(1, of=_TERMINAL),)),
    _Rule("mount umount2 pivot_root chroot move_mount fsopen fsconfig fsmount fspick open_tree open_tree_attr"),
    _Rule("mount_setattr bpf perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module"),
    _Rule("delete_module syslog acct quotactl quotactl_fd swapon swapoff reboot settimeofday clock_settime"),
    _Rule("open_by_handle_at lookup_dcookie fanotify_init vhangup uselib iopl ioperm nfsservctl"),
)  # fmt: skip

_X86_64: Final = """
  open 2 ioctl 16 socket 41 socketpair 53 clone 56 creat 85 chmod 90 fchmod 91 ptrace 101 syslog 103 mknod 133
  uselib 134 vhangup 153 pivot_root 155 chroot 161 acct 163 settimeofday 164 mount 165 umount2 166 swapon 167
  swapoff 168 reboot 169 iopl 172 ioperm 173 init_module 175 delete_module 176 quotactl 179 nfsservctl 180
  lookup_dcookie 212 clock_settime 227 kexec_load 246 add_key 248 request_key 249 keyctl 250 openat 257 mknodat 259
  fchmodat 268 unshare 272 perf_event_open 298 fanotify_init 300 open_by_handle_at 304 setns 308 process_vm_readv 310
  process_vm_writev 311 kcmp 312 finit_module 313 kexec_file_load 320 bpf 321 userfaultfd 323
"""
_AARCH64: Final = """
  lookup_dcookie 18 ioctl 29 mknodat 33 umount2 39 mount 40 pivot_root 41 nfsservctl 42 chroot 51 fchmod 52 fchmodat 53
  openat 56 vhangup 58 quotactl 60 acct 89 unshare 97 kexec_load 104 init_module 105 delete_module 106
  clock_settime 112 syslog 116 ptrace 117 reboot 142 settimeofday 170 socket 198 socketpair 199 add_key 217
  request_key 218 keyctl 219 clone 220 swapon 224 swapoff 225 perf_event_open 241 fanotify_init 262
  open_by_handle_at 265 setns 268 process_vm_readv 270 process_vm_writev 271 kcmp 272 finit_module 273 bpf 280
  userfaultfd 282 kexec_file_load 294
"""
_BOTH: Final = """
  io_uring_setup 425 io_uring_enter 426 io_uring_register 427 open_tree 428 move_mount 429 fsopen 430 fsconfig 431
  fsmount 432 fspick 433 clone3 435 openat2 437 pidfd_getfd 438 mount_setattr 442 quotactl_fd 443 fchmodat2 452
  open_tree_attr 467
"""


def _numbers(*tables: str) -> dict[str, int]:
    words = " ".join(tables).split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


_MACHINES: Final = {
    "x86_64": _Machine(0xC000_003E, _numbers(_X86_64, _BOTH), foreign_from=_X32),
    "aarch64": _Machine(0xC000_00B7, _numbers(_AARCH64, _BOTH)),
}
KNOWN: Final = tuple(_MACHINES)


def syscall_numbers(machine: str) -> dict[str, int]:
    """The numbers of the filtered calls on `machine`, as `uname -m` prints it; empty for an unknown machine."""
    known = _MACHINES.get(machine)
    return {} if known is None else known.numbers


def seccomp_program(machine: str) -> bytes | None:
    """The filter for `machine`, as `uname -m` prints it; None for an unknown machine."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    lines = [*_own_calls_only(known), *(line for rule in _RULES for line in _refusing(rule, known.numbers))]
    return b"".join((*lines, _line(_RETURN, ALLOW)))


def _own_calls_only(machine: _Machine) -> list[bytes]:
    """Refuse calls of other ABIs, and load the number of the call for comparisons."""
    refuse = _line(_RETURN, ERRNO | errno.ENOSYS)
    lines = [_line(_LOAD, _ARCHITECTURE), _line(_EQUAL, machine.architecture, yes=1), refuse, _line(_LOAD, _NUMBER)]
    return lines if machine.foreign_from is None else [*lines, _line(_AT_LEAST, machine.foreign_from, no=1), refuse]


def _refusing(rule: _Rule, numbers: dict[str, int]) -> Iterable[bytes]:
    for call in rule.calls.split():
        if call in numbers:
            body = _body(rule)
            yield from (_line(_EQUAL, numbers[call], no=len(body)), *body)


def _body(rule: _Rule) -> list[bytes]:
    """The action for a call of the rule. Loads the number again for the next rules."""
    lines = [_line(_RETURN, ERRNO | rule.error)]
    for test in reversed(rule.tests):
        lines = [*_tested(test, skipped=len(lines)), *lines]
    return [*lines, _line(_LOAD, _NUMBER)] if rule.tests else lines


def _tested(test: _If, *, skipped: int) -> Sequence[bytes]:
    """Continue with the next line if `test` holds, otherwise after the `skipped` lines."""
    load = _line(_LOAD, _ARGUMENTS + 8 * test.at + 4 * test.high)
    if test.bits:
        return (load, _line(_ANY_OF, test.bits, no=skipped))
    last = len(test.of) - 1
    if test.is_negated:
        return (load, *(_line(_EQUAL, value, yes=skipped + last - at) for at, value in enumerate(test.of)))
    found = [_line(_EQUAL, value, yes=last - at, no=skipped if at == last else 0) for at, value in enumerate(test.of)]
    return (load, *found)


def _line(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return _ENTRY.pack(code, yes, no, value)
