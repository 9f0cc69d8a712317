"""The seccomp filter of tier 2: what it and the sandbox stop, and the programs that run in it."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from planloop.containers.sandbox import bubblewrap, seccomp
from planloop.containers.sandbox.probe import ProbedSandboxes
from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.schemas.objects.sandbox import BUBBLEWRAP, SandboxRequest
from tests import golden_text, needs, rows
from tests.containers.sandboxing import enclosures, probes
from tests.containers.sandboxing.test_escapes import ENV, PYTHON, Plan
from tests.containers.sandboxing.test_probing import SetClock
from tests.fakes.virtual_time import SeededIds
from tests.product import CommandSandbox, ExitCause, ProcessCommand

pytestmark = pytest.mark.anyio
GROUPS = 4
SHARES = [probes.PROBES[start::GROUPS] for start in range(GROUPS)]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    needs.bubblewrap()
    return Plan(tmp_path)


@pytest.mark.process
@pytest.mark.parametrize("share", SHARES, ids=range(GROUPS))
async def test_law_6_no_probe_escapes_tier_2(plan: Plan, share: tuple[probes.Probe, ...]) -> None:
    box = CommandSandbox(2, guarded=(str(plan.folder / "p.plan.yaml"),))
    command = ProcessCommand(
        str(plan.folder),
        argv=(PYTHON, "-S", "-c", probes.RUNNER),
        env=ENV,
        stdin=json.dumps(probes.given(share)).encode(),
        timeout_s=30.0,
        sandbox=box,
    )

    left = os.open(plan.outside / "secret", os.O_RDONLY)
    try:
        os.set_inheritable(left, True)
        ended = await enclosures.enclosing(plan.folder, plan.state / "run").run("a", command)
    finally:
        os.close(left)

    assert ended.ending is ExitCause.EXITED and ended.code == 0, ended.output.decode()
    found = dict(json.loads(line) for line in ended.output.decode().splitlines() if line.startswith("["))
    assert {one.name: found[one.name] for one in share if found[one.name] not in one.ends} == {}
    assert not [path for path in plan.folder.rglob("*") if path.stat().st_mode & 0o6000]


def test_probes_have_distinct_names_and_there_are_enough_of_them() -> None:
    assert len(probes.PROBES) >= 60
    assert max(Counter(one.name for one in probes.PROBES).values()) == 1


@pytest.mark.process
async def test_a_command_that_traces_the_first_process_ends_by_itself(plan: Plan) -> None:
    trace = "import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))"

    ended = await plan.shell(f'{PYTHON} -S -c "{trace}"; echo over')

    assert ended.code == 0 and ended.output == b"-1\nover\n"


@pytest.mark.process
async def test_the_first_process_is_under_the_filter_too_and_the_command_under_two(plan: Plan) -> None:
    ended = await plan.shell("grep -h Seccomp_filters /proc/1/status /proc/self/status")

    outside = int(Path("/proc/self/status").read_text().partition("Seccomp_filters:")[2].split()[0])
    assert [int(line.split()[1]) - outside for line in ended.output.decode().splitlines()] == [1, 2]


@pytest.mark.process
async def test_a_key_of_the_session_is_not_read_inside(plan: Plan) -> None:
    probe = (probes.Probe("key", "call('keyctl', 10, -3, b'user', b'planloop-test', 0)", (), ""),)
    script = (
        "import ctypes, os, sys; libc = ctypes.CDLL(None);"
        f"key, add = {seccomp.syscall_numbers(os.uname().machine)['keyctl']}, "
        f"{seccomp.syscall_numbers(os.uname().machine)['add_key']};"
        "libc.syscall(key, 1, None); assert libc.syscall(add, b'user', b'planloop-test', b'x', 1, -3) > 0;"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    inner = ProcessCommand(
        str(plan.folder), argv=(PYTHON, "-S", "-c", probes.RUNNER), env=ENV, sandbox=CommandSandbox(2)
    )
    words = bubblewrap.bwrap_argv(enclosures.means(plan.state), enclosures.home_of(plan.folder), inner)
    given = json.dumps(probes.given(probe)).encode()

    beside = await anyio.run_process([PYTHON, "-c", script, PYTHON, "-S", "-c", probes.RUNNER], input=given, env=ENV)
    ended = await anyio.run_process([PYTHON, "-c", script, *words], input=given, env=ENV)

    assert b"done: " in beside.stdout, "the key is there to be found"
    assert json.loads(ended.stdout) == ["key", "EPERM"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "line", "said"),
    [
        ("python3", 'python3 -c \'import subprocess as s; print(s.check_output(["echo", "ran"]))\'', b"ran"),
        (
            "python3",
            "python3 -c 'import threading as t; t.Thread(target=print, args=(\"ran\",)).start()'",
            b"ran",
        ),
        (
            "git",
            "mkdir w && cd w && git init -q && git add -A && git status && echo ran",
            b"ran",
        ),
        ("node", 'node -e \'require("fs").readFile("p.plan.yaml", () => console.log("ran"))\'', b"ran"),
        ("npm", "npm --version && echo ran", b"ran"),
        ("make", "printf 'all:\\n\\t@echo ran\\n' > Makefile; make -j2", b"ran"),
        ("gcc", "echo 'int main(){return 7;}' > a.c && gcc a.c && ./a.out; echo ran $?", b"ran 7"),
        ("java", "java -version && echo ran", b"ran"),
        (
            "tar",
            "mkdir t && echo x > t/f && tar czf t.tgz t && tar xzpf t.tgz && cp -a t u && cat u/f",
            b"x",
        ),
    ],
)
async def test_ordinary_programs_run_under_the_filter(plan: Plan, program: str, line: str, said: bytes) -> None:
    needs.program(program)

    ended = await plan.shell(line, timeout_s=60.0)

    assert ended.code == 0 and said in ended.output, ended.output.decode()


async def test_machine_with_unknown_system_calls_has_no_tier_2_and_reports_it(plan: Plan) -> None:
    home = replace(enclosures.home_of(plan.folder), machine="riscv64")
    local = LocalProcesses(plan.state / "run", "t", 1)
    tried = ProbedSandboxes(
        SandboxedProcesses(local, plan.state / "run" / "enclosed", home), SetClock(), SeededIds(1), str(plan.folder)
    )

    answer = await tried.tried(SandboxRequest(BUBBLEWRAP))

    assert not answer.is_had
    golden_text.said([answer.why, answer.cure])


@pytest.mark.process
async def test_a_filter_that_the_kernel_refuses_is_reported_as_a_missing_sandbox(plan: Plan) -> None:
    """Under a filter that refuses filters, as some containers have it."""
    script = f"""
import ctypes, errno, os, struct, sys
lines = ((0x20, 0, 0, 0), (0x15, 0, 3, {_NUMBERS["prctl"]}), (0x20, 0, 0, 16), (0x15, 0, 1, 22),
         (0x06, 0, 0, 0x50000 | errno.EINVAL), (0x06, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
libc = ctypes.CDLL(None)
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, struct.pack("HxxxxxxQ", 6, ctypes.addressof(program)), 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
    words = [sys.executable, "-m", "planloop", "doctor"]
    env = {**ENV, "PATH": os.defpath, "PYTHONPATH": enclosures.CODE, "DOCKER_HOST": "unix:///nowhere"}

    ended = await anyio.run_process([PYTHON, "-c", script, *words], env=env, cwd=plan.outside, check=False)

    golden_text.said_in(ended.stdout.decode(), "sandbox")


_NUMBERS = {"prctl": {"x86_64": 157, "aarch64": 167}.get(os.uname().machine, 0)}


def ran(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the filter `program` returns for a system call, as the kernel runs it."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x06:
                return int(value)
            case 0x15:
                at += yes if accumulator == value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x45:
                at += yes if accumulator & value else no


ARM, X86 = 0xC00000B7, 0xC000003E


@rows.each(
    ("machine", "architecture", "number", "arguments", "error"),
    [
        ("aarch64", ARM, 219, (10, 0), errno.EPERM),
        ("aarch64", ARM, 219, (1, 0), 0),
        ("aarch64", ARM, 219, (1, 1 << 40), errno.EPERM),
        ("aarch64", ARM, 217, (), errno.EPERM),
        ("aarch64", ARM, 53, (0, 0, 0o755), 0),
        ("aarch64", ARM, 53, (0, 0, 0o4755), errno.EPERM),
        ("aarch64", ARM, 56, (0, 0, 0o100, 0o4755), errno.EPERM),
        ("aarch64", ARM, 56, (0, 0, 0, 0o4755), 0),
        ("aarch64", ARM, 117, (16, 1), errno.EPERM),
        ("aarch64", ARM, 117, (16, 2), 0),
        ("aarch64", ARM, 198, (40,), errno.EAFNOSUPPORT),
        ("aarch64", ARM, 198, (2,), 0),
        ("aarch64", ARM, 198, (10,), 0),
        ("aarch64", ARM, 220, (0x10000011,), errno.EPERM),
        ("aarch64", ARM, 220, (0x11,), 0),
        ("aarch64", ARM, 425, (), errno.ENOSYS),
        ("aarch64", 0x40000028, 5, (), errno.ENOSYS),
        ("x86_64", X86, 1, (1, 2, 3), 0),
        ("x86_64", 0x40000003, 1, (), errno.ENOSYS),
        ("x86_64", X86, 0x40000001, (), errno.ENOSYS),
        ("x86_64", X86, 90, (0, 0o4755), errno.EPERM),
        ("x86_64", X86, 41, (16,), 0),
        ("x86_64", X86, 41, (38,), errno.EAFNOSUPPORT),
    ],
)
def test_the_filter_of_each_machine_refuses_these_calls_and_lets_others_through(
    machine: str, architecture: int, number: int, arguments: tuple[int, ...], error: int
) -> None:
    program = seccomp.seccomp_program(machine)
    assert program is not None

    said = ran(program, architecture, number, *arguments)

    assert said == (seccomp.ERRNO | error if error else seccomp.ALLOW)


def test_the_numbers_of_the_calls_are_those_of_this_machines_kernel_headers() -> None:
    header = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}[os.uname().machine]
    file = Path("/usr/include") / header
    if not file.exists():
        needs.missing("the kernel's headers")
    listed = dict(line.split()[1:3] for line in file.read_text().splitlines() if line.startswith("#define __NR_"))

    known = {
        name: number for name, number in seccomp.syscall_numbers(os.uname().machine).items() if f"__NR_{name}" in listed
    }

    assert len(known) > 50 and {name: str(number) for name, number in known.items()} == {
        name: listed[f"__NR_{name}"] for name in known
    }
    assert ctypes.sizeof(ctypes.c_void_p) == 8
