"""Ways out of tier 2, each by name: Python that tries it inside, what it has to come to, and what stopped it.

`docs/rights.md` shows the same table. `RUNNER` runs each probe in a process of its own and prints its name and outcome:
the name of an error, or what the probe says.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from containers.sandboxing import seccomp

FILTER: Final = "the filter of system calls"
CAPABILITIES: Final = "no capabilities"
READ_ONLY: Final = "a read-only mount"
ABSENT: Final = "not mounted"
NETWORK: Final = "its own network"
PROCESSES: Final = "its own processes"


@dataclass(frozen=True, slots=True)
class Probe:
    """`code` is one Python expression; `ends` are the outcomes that mean that nothing came of it."""

    name: str
    code: str
    ends: tuple[str, ...]
    stopped_by: str


def _calls(ends: str, stopped_by: str, *rows: tuple[str, str]) -> tuple[Probe, ...]:
    return tuple(Probe(name, code, tuple(ends.split()), stopped_by) for name, code in rows)


PROBES: Final = (
    *_calls(
        "EPERM",
        FILTER,
        ("read a key of the session", "call('keyctl', 10, -3, b'user', b'hosts', 0)"),
        ("read the user's keyring", "call('keyctl', 11, -4, buffer, 100)"),
        ("join the session keyring by name", "call('keyctl', 1, b'session')"),
        ("join another new keyring", "call('keyctl', 1, None)"),
        ("attach a key to the parent's session", "call('keyctl', 18)"),
        ("invalidate a key", "call('keyctl', 21, -3)"),
        ("leave a key", "call('add_key', b'user', b'left', b'x', 1, -3)"),
        ("ask for a key", "call('request_key', b'user', b'hosts', None, -3)"),
        ("chmod u+s", "call('chmod', made(b's'), 0o4755)"),
        ("chmod g+s", "call('chmod', made(b's'), 0o2755)"),
        ("fchmod u+s", "call('fchmod', os.open(made(b's'), os.O_RDONLY), 0o4755)"),
        ("fchmodat u+s", "call('fchmodat', -100, made(b's'), 0o4755)"),
        ("fchmodat2 u+s", "call('fchmodat2', -100, made(b's'), 0o4755, 0)"),
        ("create a file with u+s by open", "call('open', b's', os.O_CREAT | os.O_WRONLY, 0o4755)"),
        ("create a file with u+s by openat", "call('openat', -100, b's', os.O_CREAT | os.O_WRONLY, 0o4755)"),
        ("create a file with u+s by creat", "call('creat', b's', 0o4755)"),
        ("create a nameless file with u+s", "call('openat', -100, b'.', 0o20200000 | os.O_WRONLY, 0o4755)"),
        ("create a file with u+s by mknod", "call('mknod', b's', 0o104755, 0)"),
        ("create a file with g+s by mknodat", "call('mknodat', -100, b's', 0o102755, 0)"),
        ("attach to the first process", "call('ptrace', 16, 1, 0, 0)"),
        ("seize the first process", "call('ptrace', 0x4206, 1, 0, 0)"),
        ("attach to the first process by a wide number", "call('ptrace', 16, 0x1_0000_0001, 0, 0)"),
        ("read the memory of the first process", "call('process_vm_readv', 1, None, 0, None, 0, 0)"),
        ("write the memory of the first process", "call('process_vm_writev', 1, None, 0, None, 0, 0)"),
        ("compare with the first process", "call('kcmp', os.getpid(), 1, 0, 0, 0)"),
        ("take a descriptor of another process", "call('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)"),
        ("a user namespace by unshare", "call('unshare', 0x10000000)"),
        ("a user namespace by clone", "call('clone', 0x10000000 | 17, 0, 0, 0, 0)"),
        ("a network namespace by unshare", "call('unshare', 0x40000000)"),
        ("a mount namespace by clone", "call('clone', 0x20000 | 17, 0, 0, 0, 0)"),
        ("enter a namespace by setns", "call('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0)"),
        ("mount a file system", "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)"),
        ("unmount what is hidden", "call('umount2', b'/run', 2)"),
        ("open a mount", "call('open_tree', -100, b'/', 1)"),
        ("open a file system", "call('fsopen', b'tmpfs', 0)"),
        ("change a mount's attributes", "call('mount_setattr', -100, b'/', 0, None, 0)"),
        ("pivot to another root", "call('pivot_root', b'/tmp', b'/tmp')"),
        ("chroot", "call('chroot', b'/tmp')"),
        ("open a file by its handle", "call('open_by_handle_at', -100, None, 0)"),
        ("load a program into the kernel", "call('bpf', 5, None, 0)"),
        ("watch the machine's counters", "call('perf_event_open', None, 0, -1, -1, 0)"),
        ("handle page faults", "call('userfaultfd', 0)"),
        ("read the kernel's log", "call('syslog', 3, buffer, 100)"),
        ("load a kernel module", "call('finit_module', 0, b'', 0)"),
        ("load another kernel", "call('kexec_load', 0, 0, None, 0)"),
        ("set the machine's clock", "call('clock_settime', 0, None)"),
        ("put input into a terminal", "call('ioctl', 0, 0x5412, b'x')"),
    ),
    *_calls(
        "ENOSYS",
        FILTER,
        ("io_uring_setup", "call('io_uring_setup', 8, buffer)"),
        ("io_uring_enter", "call('io_uring_enter', 0, 0, 0, 0, None, 0)"),
        ("io_uring_register", "call('io_uring_register', 0, 0, None, 0)"),
        ("a namespace by clone3", "call('clone3', buffer, 64)"),
        ("create a file with u+s by openat2", "call('openat2', -100, b's', buffer, 24)"),
        ("a call of the x32 ABI", "call(0x4000_0000 + 39)"),
    ),
    *_calls(
        "EAFNOSUPPORT",
        FILTER,
        ("a socket to the machine's host (AF_VSOCK)", "opened(40)"),
        ("a socket to the kernel's ciphers (AF_ALG)", "opened(38)"),
        ("raw packets (AF_PACKET)", "opened(17, socket.SOCK_RAW)"),
        ("Bluetooth", "opened(31)"),
        ("a pair of TIPC sockets", "call('socketpair', 30, 1, 0, buffer)"),
    ),
    *_calls(
        "EPERM EINVAL",
        CAPABILITIES,
        (
            "give a file capabilities",
            "tried(os.setxattr, made(b's'), 'security.capability', struct.pack('<5I', 0x02000001, 1, 0, 0, 0))",
        ),
        ("become another user", "tried(os.setuid, 1)"),
        ("give a file to another user", "tried(os.chown, made(b's'), 1, 1)"),
        ("make a device", "tried(os.mknod, 'device', 0o20600, os.makedev(1, 1))"),
        ("raise a limit", "tried(resource.setrlimit, resource.RLIMIT_FSIZE, (-1, -1))"),
        ("rename the machine", "tried(socket.sethostname, 'x')"),
    ),
    *_calls(
        "EROFS EACCES ENOENT",
        READ_ONLY,
        ("write the plan file", "tried(open, 'p.plan.yaml', 'w')"),
        ("write git's configuration", "tried(open, '.git/config', 'w')"),
        ("write a program of the system's", "tried(open, '/usr/bin/planned', 'w')"),
        ("write a file in /etc", "tried(open, '/etc/planned', 'w')"),
        ("raise the number of namespaces", "tried(open, '/proc/sys/user/max_user_namespaces', 'w')"),
        ("press the kernel's keys", "tried(open, '/proc/sysrq-trigger', 'w')"),
        ("write where core dumps go", "tried(open, '/proc/sys/kernel/core_pattern', 'w')"),
    ),
    *_calls(
        "empty ENOENT EACCES",
        ABSENT,
        ("read the log of the plan", "read('.plan/p/log.db')"),
        ("read a file beside the plan", "read('../outside/secret')"),
        ("read the passwords", "read('/etc/shadow')"),
        ("list the keys", "read('/proc/keys')"),
        ("open the first process's memory", "read('/proc/1/mem')"),
        ("open it as that of a thread", "read('/proc/1/task/1/mem')"),
        ("open the machine's memory", "read('/dev/mem')"),
        ("open a disk", "read('/dev/vda')"),
        ("ask the container engine", "connected(socket.AF_UNIX, '/run/docker.sock')"),
        ("read the owner's home", "listed(os.path.expanduser('~'))"),
    ),
    *_calls(
        "ECONNREFUSED ENETUNREACH",
        NETWORK,
        ("reach this machine's ports", "connected(socket.AF_INET, ('127.0.0.1', 22))"),
        ("reach another machine", "connected(socket.AF_INET, ('192.0.2.1', 80))"),
        ("reach a cloud's metadata", "connected(socket.AF_INET, ('169.254.169.254', 80))"),
        ("reach this machine by IPv6", "connected(socket.AF_INET6, ('::1', 22))"),
        ("reach an abstract socket", "connected(socket.AF_UNIX, '\\0/tmp/.X11-unix/X0')"),
    ),
    *_calls(
        "ESRCH none",
        PROCESSES,
        ("signal the owner", "tried(os.kill, OWNER, 0)"),
        ("read the owner's environment", "read(f'/proc/{OWNER}/environ', 'none')"),
        ("stop the first process", "stopped()"),
    ),
)

RUNNER: Final = """
import ctypes, errno, json, os, resource, signal, socket, struct, sys
NUMBERS, PROBES, OWNER = json.loads(sys.stdin.read())
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(128)
def call(number, *arguments):
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    found = libc.syscall(NUMBERS[number] if isinstance(number, str) else number, *wide)
    return errno.errorcode[ctypes.get_errno()] if found < 0 else f"done: {found}"
def tried(function, *arguments):
    try:
        return f"done: {function(*arguments)}"
    except OSError as error:
        return errno.errorcode[error.errno]
    except ValueError:  # As Python reports a limit that may not be raised.
        return "EPERM"
def listed(folder):
    own = [one for one in os.listdir(folder) if not sys.base_prefix.startswith(f"{folder}/{one}/")]
    return " ".join(own) or "empty"
def made(name):
    open(name, "w").close()
    return name
def opened(family, kind=socket.SOCK_STREAM):
    return tried(socket.socket, family, kind)
def connected(family, place):
    one = socket.socket(family)
    one.settimeout(2)
    return tried(one.connect, place)
def read(path, missing="ENOENT"):
    try:
        return open(path, "rb").read(100).hex() or "empty"
    except FileNotFoundError:
        return missing
    except OSError as error:
        return errno.errorcode[error.errno]
def stopped():
    os.kill(1, signal.SIGSTOP)
    return "none" if open("/proc/1/stat").read().split()[2] == "S" else "done"
for name, code in PROBES:
    into, out = os.pipe()
    if os.fork() == 0:
        try:
            said = str(eval(code))
        except OSError as error:
            said = errno.errorcode[error.errno]
        os.write(out, said.encode())
        os._exit(0)
    os.close(out)
    print(json.dumps([name, os.read(into, 1000).decode()]), flush=True)
    os.close(into)
    os.wait()
"""


def given(probes: tuple[Probe, ...]) -> list[object]:
    """What `RUNNER` reads, as JSON."""
    return [seccomp.numbers(os.uname().machine), [[one.name, one.code] for one in probes], os.getpid()]
