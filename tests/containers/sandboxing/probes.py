"""Ways out of tier 2, each by name: Python that tries it inside, what it has to come to, and what stopped it.

`docs/reference/rights.md` shows the same table. `RUNNER` runs each probe in a process of its own and prints its name
and outcome: the name of an error, or what the probe says.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from planloop.containers.sandbox import seccomp

FILTER: Final = "the seccomp filter"
CAPABILITIES: Final = "no capabilities"
READ_ONLY: Final = "a read-only mount"
ABSENT: Final = "not mounted"
MOUNT: Final = "a mount of its own"
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
        ("chmod u+s by a wide mode", "call('chmod', made(b's'), 0x1_0000_0000 | 0o4755)"),
        ("chmod g+s of a folder", "call('chmod', b'.', 0o2755)"),
        ("fchmod u+s of a file in memory", "call('fchmod', os.memfd_create('s'), 0o4755)"),
        ("create a file with u+s by open", "call('open', b's', os.O_CREAT | os.O_WRONLY, 0o4755)"),
        ("create a file with u+s by openat", "call('openat', -100, b's', os.O_CREAT | os.O_WRONLY, 0o4755)"),
        ("create a file with u+s by creat", "call('creat', b's', 0o4755)"),
        ("create a nameless file with u+s", "call('openat', -100, b'.', 0o20200000 | os.O_WRONLY, 0o4755)"),
        ("create a file with u+s by mknod", "call('mknod', b's', 0o104755, 0)"),
        ("create a file with g+s by mknodat", "call('mknodat', -100, b's', 0o102755, 0)"),
        ("attach to the first process", "call('ptrace', 16, 1, 0, 0)"),
        ("seize the first process", "call('ptrace', 0x4206, 1, 0, 0)"),
        ("attach to the first process by a wide number", "call('ptrace', 16, 0x1_0000_0001, 0, 0)"),
        ("set options of the first process", "call('ptrace', 0x4200, 1, 0, 0)"),
        ("read the memory of the first process", "call('process_vm_readv', 1, None, 0, None, 0, 0)"),
        ("read it by a wide number", "call('process_vm_readv', 0x1_0000_0001, None, 0, None, 0, 0)"),
        ("write the memory of the first process", "call('process_vm_writev', 1, None, 0, None, 0, 0)"),
        ("compare with the first process", "call('kcmp', os.getpid(), 1, 0, 0, 0)"),
        ("compare the first process with this one", "call('kcmp', 1, os.getpid(), 0, 0, 0)"),
        ("take a descriptor of another process", "call('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)"),
        ("a user namespace by unshare", "call('unshare', 0x10000000)"),
        ("a user namespace by clone", "call('clone', 0x10000000 | 17, 0, 0, 0, 0)"),
        ("a network namespace by unshare", "call('unshare', 0x40000000)"),
        ("a mount namespace by clone", "call('clone', 0x20000 | 17, 0, 0, 0, 0)"),
        ("a namespace of processes by clone", "call('clone', 0x20000000 | 17, 0, 0, 0, 0)"),
        ("a namespace of names by unshare", "call('unshare', 0x4000000)"),
        ("a namespace of IPC by unshare", "call('unshare', 0x8000000)"),
        ("a namespace of cgroups by unshare", "call('unshare', 0x2000000)"),
        ("a namespace of clocks by unshare", "call('unshare', 0x80)"),
        ("enter a namespace by setns", "call('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0)"),
        ("enter those of the first process", "call('setns', os.pidfd_open(1), 0x20000)"),
        ("mount a file system", "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)"),
        ("unmount what is hidden", "call('umount2', b'/run', 2)"),
        ("open a mount", "call('open_tree', -100, b'/', 1)"),
        ("move a mount", "call('move_mount', -100, b'/usr', -100, b'/tmp', 0)"),
        ("pick a file system", "call('fspick', -100, b'/', 0)"),
        ("configure a file system", "call('fsconfig', 0, 6, None, None, 0)"),
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
        ("unload a kernel module", "call('delete_module', b'x', 0)"),
        ("watch all files", "call('fanotify_init', 0, 0)"),
        ("account processes", "call('acct', b'x')"),
        ("swap to a file", "call('swapon', b'x', 0)"),
        ("set a quota", "call('quotactl', 0, None, 0, None)"),
        ("restart the machine", "call('reboot', 0, 0, 0, None)"),
        ("load another kernel", "call('kexec_load', 0, 0, None, 0)"),
        ("set the machine's clock", "call('clock_settime', 0, None)"),
        ("put input into a terminal", "call('ioctl', 0, 0x5412, b'x')"),
        ("paste into a terminal", "call('ioctl', 0, 0x541C, b'x')"),
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
        ("become another group", "tried(os.setgid, 1)"),
        ("become a member of groups", "tried(os.setgroups, [1])"),
        ("map other users", "tried(open('/proc/self/uid_map', 'w', 1).write, '0 1 1\\n')"),
        ("raw packets by IPv4", "tried(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)"),
        ("a trusted attribute of a file", "tried(os.setxattr, made(b's'), 'trusted.x', b'x')"),
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
        ("write what is run for a missing module", "tried(open, '/proc/sys/kernel/modprobe', 'w')"),
        ("write how interrupts are spread", "tried(open, '/proc/irq/default_smp_affinity', 'w')"),
        ("make a folder beside the system's", "tried(os.mkdir, '/planned')"),
        ("make a folder in /run", "tried(os.mkdir, '/run/planned')"),
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
        ("open the kernel's log", "read('/dev/kmsg')"),
        ("open a virtual machine", "read('/dev/kvm')"),
        ("open a tunnel", "read('/dev/net/tun')"),
        ("open a file system in user space", "read('/dev/fuse')"),
        ("write a control group", "tried(open, '/sys/fs/cgroup/cgroup.procs', 'w')"),
        ("read the machine's firmware", "listed('/sys/firmware')"),
        ("read the machine's logs", "listed('/var/log')"),
        ("read in /etc what only root may", "closed('/etc')"),
        ("read a file that planloop's caller left open", "left_open()"),
        ("ask the container engine", "connected(socket.AF_UNIX, '/run/docker.sock')"),
        ("ask the container engine by its old name", "connected(socket.AF_UNIX, '/var/run/docker.sock')"),
        ("ask the machine's services", "connected(socket.AF_UNIX, '/run/dbus/system_bus_socket')"),
        ("ask the first process of the machine", "connected(socket.AF_UNIX, '/run/systemd/private')"),
        ("ask the owner of the plan", "connected(socket.AF_UNIX, '.plan/p/socket')"),
        ("read the owner's home", "listed(os.path.expanduser('~'))"),
    ),
    *_calls(
        "EXDEV",
        MOUNT,
        ("link a program of the system's", "tried(os.link, '/usr/bin/env', 'linked')"),
        ("link the plan file", "tried(os.link, 'p.plan.yaml', 'linked')"),
        ("link git's configuration", "tried(os.link, '.git/config', 'linked')"),
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
        ("read the owner's files", "read(f'/proc/{OWNER}/cwd/README.md', 'none')"),
        ("attach to the owner", "call('ptrace', 16, OWNER, 0, 0)"),
        ("compare with the owner", "call('kcmp', os.getpid(), OWNER, 0, 0, 0)"),
        ("hold the owner by a descriptor", "tried(os.pidfd_open, OWNER)"),
        ("bound the owner", "tried(resource.prlimit, OWNER, resource.RLIMIT_NOFILE, (9, 9))"),
        ("slow the owner down", "tried(os.setpriority, os.PRIO_PROCESS, OWNER, 19)"),
        ("choose the owner's processors", "tried(os.sched_setaffinity, OWNER, [0])"),
        ("stop the first process", "stopped()"),
    ),
)

RUNNER: Final = """
import ctypes, errno, json, os, resource, signal, socket, stat, struct, sys
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
def closed(folder):
    found = []
    for place, folders, files in os.walk(folder):
        for path in (os.path.join(place, name) for name in files):
            seen = os.lstat(path)
            if not seen.st_mode & 0o004 and stat.S_ISREG(seen.st_mode):
                found.append(path)
    return " ".join(found) or "empty"
def left_open():
    files = [one for one in os.listdir("/proc/self/fd") if os.path.isfile(f"/proc/self/fd/{one}")]
    return " ".join(read(f"/proc/self/fd/{one}") for one in files if int(one) > 2) or "empty"
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
    return [seccomp.syscall_numbers(os.uname().machine), [[one.name, one.code] for one in probes], os.getpid()]
