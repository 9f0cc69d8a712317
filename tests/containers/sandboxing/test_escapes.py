"""Ways out of bubblewrap, each tried by name; none leads anywhere."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from planloop.containers.sandbox import bubblewrap, write_guard
from planloop.containers.sandbox.bubblewrap import SandboxHome
from planloop.containers.sandbox.write_guard import SandboxUnfit
from planloop.reconciler.effects import process_table
from tests import golden_text, needs
from tests.containers.sandboxing import enclosures
from tests.e2e import container_harness
from tests.product import CommandSandbox, ExitCause, ProcessCommand
from tests.product import ProcessExit as Exit

pytestmark = pytest.mark.anyio
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/root"}
PYTHON = sys.executable


class Plan:
    """A plan's folder with all that steers it, and a command in its workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "plan"
        self.outside = folder / "outside"
        self.state = self.folder / ".plan" / "p"
        for place in (self.state / "run", self.folder / ".git" / "hooks", self.folder / "hooks" / "more", self.outside):
            place.mkdir(parents=True)
        (self.state / "log.db").write_text("the log")
        (self.folder / ".git" / "config").write_text("[core]\n")
        (self.folder / "hooks" / "guard.sh").write_text("exit 1\n")
        (self.folder / "hooks" / "more" / "deep.sh").write_text("exit 1\n")
        (self.folder / "p.plan.yaml").write_text("plan: p\n")
        (self.outside / "secret").write_text("sesame\n")
        (self.state / "file.json").write_text('{"file": "also.plan.yaml"}')
        (self.folder / "also.plan.yaml").write_text("plan: also\n")
        (self.folder / "lib").mkdir()
        (self.folder / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")
        (self.folder / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n')

    async def shell(self, line: str, *, op: str = "a", **more: object) -> Exit:
        names = ("p.plan.yaml", "hooks", "hooks/guard.sh", "hooks/more/deep.sh")
        guarded = tuple(str(self.folder / name) for name in names)
        own = {"timeout_s": 15.0, **more}
        box = CommandSandbox(2, guarded=guarded, hosts=own.pop("hosts", ()))  # type: ignore[arg-type]  # the tests' own
        command = ProcessCommand(str(self.folder), shell=line, env=ENV, sandbox=box, **own)  # type: ignore[arg-type]
        return await enclosures.enclosing(self.folder, self.state / "run").run(op, command)

    def steering(self) -> dict[str, str]:
        """Everything that no command may change."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and "run" not in path.parts]
        named = (".git", ".gitmodules", ".plan", "hooks", "p.plan.yaml", "also.plan.yaml")
        kept = [path for path in files if set(named) & set(path.parts)]
        return {str(path): path.read_text() for path in kept}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    needs.bubblewrap()
    return Plan(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "echo x > p.plan.yaml",
        "rm -f p.plan.yaml",
        "echo x > new && mv -f new p.plan.yaml",
        "ln -sf /etc/passwd p.plan.yaml",
        "ln -s p.plan.yaml way && echo x > way",
        "echo x > also.plan.yaml",
        "echo x > .git/config",
        "echo x > .git/hooks/pre-commit",
        "mv .git elsewhere && mkdir .git",
        "rm -rf .git",
        "echo x > hooks/guard.sh",
        "mv hooks away && mkdir hooks && echo exit 0 > hooks/guard.sh",
        "rm -rf hooks",
        "echo x > hooks/new",
        "echo x > hooks/more/new",
        "mv hooks/more hooks/away",
        "cd hooks/more && echo x > deep.sh",
        "echo gitdir: ../evil > lib/.git",
        "rm -rf lib/.git && git init -q lib",
        "mv lib away && git init -q lib",
        "echo x > .gitmodules",
        "rm -rf .plan",
        "mv .plan away",
        "echo x > .plan/p/log.db",
        "mkdir .plan/q",
        "mount -o remount,rw . && echo x > p.plan.yaml",
        "unshare -Urm sh -c 'umount .git; echo x > .git/config'",
        "chmod -R 777 .git hooks p.plan.yaml && echo x > p.plan.yaml",
    ],
)
async def test_files_that_define_the_plan_stay_unchanged(plan: Plan, line: str) -> None:
    before = plan.steering()

    ended = await plan.shell(line)

    assert ended.code != 0
    assert plan.steering() == before


@pytest.mark.parametrize(
    "line",
    [
        "echo x > ../outside/new",
        "echo x > /etc/new",
        "echo x > /usr/new",
        "ln -s ../outside way && echo x > way/new",
        "ln -s / root && echo x > root/etc/new",
        "echo x > /proc/1/root/etc/new",
        "echo x > /proc/self/root/usr/new",
        "cat /proc/sys/kernel/core_uses_pid > /proc/sys/kernel/core_uses_pid",
        "echo h > /proc/sysrq-trigger",
        "mknod disk b 8 0",
    ],
)
async def test_nothing_is_written_outside_the_workspace(plan: Plan, line: str) -> None:
    ended = await plan.shell(line)

    assert ended.code != 0
    assert sorted(path.name for path in plan.outside.iterdir()) == ["secret"]
    assert not any(Path(place, "new").exists() for place in ("/etc", "/usr"))


async def test_files_in_tmp_and_home_are_removed_with_the_command(plan: Plan, tmp_path: Path) -> None:
    ended = await plan.shell("echo x > /tmp/planloop-left && echo x > $HOME/planloop-left && ls /tmp $HOME")

    assert ended.output.count(b"planloop-left") == 2
    assert not Path("/tmp/planloop-left").exists() and not (Path.home() / "planloop-left").exists()


@pytest.mark.parametrize(
    "line",
    [
        "cat {outside}/secret",
        "cat /proc/*/root{outside}/secret",
        "cat {plan}/.plan/p/log.db",
        "ln -s {outside}/secret way; cat way",
        "cat /proc/*/environ | tr '\\0' '\\n' | grep sesame",
        "cat /proc/{owner}/environ",
        "cat /etc/shadow | grep -q . && echo sesame",
        "cat ~/.bashrc ~/.profile && echo sesame",
    ],
)
async def test_files_outside_its_sandbox_are_unreadable(plan: Plan, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "sesame")
    words = line.format(outside=plan.outside, plan=plan.folder, owner=os.getpid())

    ended = await plan.shell(words)

    assert b"sesame" not in ended.output and b"the log" not in ended.output


@pytest.mark.parametrize(
    "line",
    [
        "cat ../other/answer",
        "cat {plan}/p.plan.yaml {plan}/other/answer",
        "ln -s {plan}/other/answer way; cat way",
        "cat /proc/*/root{plan}/other/answer",
        "mkdir -p {plan}/other && echo sesame > {plan}/other/answer; cat {plan}/other/answer",
        "umount {plan}; mount -o remount,rw {plan} && echo sesame",
        "cat {plan}/.plan/p/log.db",
    ],
)
async def test_isolated_agent_sees_only_its_own_folder_of_the_plan(plan: Plan, line: str) -> None:
    (plan.folder / "p.plan.yaml").write_text("plan: sesame\n")
    for name in ("own", "other"):
        (plan.folder / name).mkdir()
        (plan.folder / name / "answer").write_text("sesame" if name == "other" else "mine")
    box = CommandSandbox(2, is_alone=True)
    words = line.format(plan=plan.folder)
    command = ProcessCommand(
        str(plan.folder / "own"), shell=f"({words}); cp answer copy", env=ENV, sandbox=box, timeout_s=15
    )

    ended = await enclosures.enclosing(plan.folder, plan.state / "run").run("a", command)

    assert ended.code == 0 and (plan.folder / "own" / "copy").read_text() == "mine"
    assert b"sesame" not in ended.output and b"the log" not in ended.output
    assert (plan.folder / "other" / "answer").read_text() == "sesame"


CONNECT = f'{PYTHON} -S -c "import socket; s = socket.socket(socket.{{}}); s.settimeout(5); s.connect({{}})"'


async def test_neither_the_network_nor_names_are_reached(plan: Plan) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reached = await plan.shell(CONNECT.format("AF_INET", f"('127.0.0.1', {port})"))
        named = await plan.shell(f"{PYTHON} -S -c \"import socket; socket.getaddrinfo('example.org', 80)\"", op="b")

    assert reached.code != 0 and b"refused" in reached.output
    assert named.code != 0


@pytest.mark.parametrize("where", ["the owner's", "one in tmp", "abstract"])
async def test_no_socket_of_this_machine_is_reached(plan: Plan, where: str, tmp_path: Path) -> None:
    name = f"\\0planloop-{os.getpid()}".encode().decode("unicode_escape")
    path = {"the owner's": f"{plan.state}/s", "one in tmp": f"/tmp/planloop-{os.getpid()}", "abstract": name}[where]
    listening = socket.socket(socket.AF_UNIX)
    with listening:
        os.chdir(plan.state)
        listening.bind("s" if where == "the owner's" else path)
        listening.listen()
        ended = await connected(plan, path)
        if where == "one in tmp":
            Path(path).unlink()

    assert ended.code == 1 and b"Error" in ended.output


@pytest.fixture
def engine_socket() -> str:
    """The path of the container engine's socket."""
    return container_harness.machines_address().removeprefix("unix://")


async def test_the_socket_of_the_container_engine_is_not_reached(engine_socket: str, plan: Plan) -> None:
    assert Path(engine_socket).is_socket()
    ended = await connected(plan, engine_socket)

    assert ended.code == 1 and b"Error" in ended.output


async def connected(plan: Plan, path: str) -> Exit:
    """How a command of the plan ended that connected to the socket at `path`."""
    return await plan.shell(CONNECT.format("AF_UNIX", repr(path).replace('"', "'")))


async def test_named_host_is_reached_through_the_proxy_and_others_are_refused(plan: Plan) -> None:
    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")

    ask = (
        f"{PYTHON} -S -c \"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{{}}/').read())\" 2>&1"
        " | tail -1"
    )
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        line = f"{ask.format(port)}; {ask.format(1)}"
        ended = await plan.shell(line, hosts=(f"127.0.0.1:{port}",))
        group.cancel_scope.cancel()

    said = ended.output.decode()
    assert "b'hello'" in said and "403" in said
    golden_text.said_in(said)
    assert list((plan.state / "run" / "enclosed").iterdir()) == []


async def test_invalid_host_name_is_reported_and_the_owner_continues(plan: Plan) -> None:
    ask = (
        "import socket; s = socket.create_connection(('127.0.0.1', 3128));"
        "s.sendall(b'CONNECT xn--\\xff.example.org:443 HTTP/1.1\\r\\n\\r\\n'); print(s.recv(1000))"
    )

    ended = await plan.shell(f'{PYTHON} -S -c "{ask}"', hosts=("*.example.org:443",))

    assert ended.code == 0 and b"502" in ended.output and b"does not respond" in ended.output


async def test_fork_bomb_is_stopped_and_reported(plan: Plan) -> None:
    needs.cgroups()

    ended = await plan.shell("f() { f | f & }; f; sleep 0.5; exit 7", processes_max=30)

    assert b"reached the process limit of its sandbox" in ended.output
    assert enclosures.leftovers(plan.state / "run") == []


async def test_filling_memory_is_stopped_and_reported(plan: Plan) -> None:
    needs.cgroups()

    ended = await plan.shell(f"{PYTHON} -S -c \"x = b'x' * (300 << 20)\"", memory_bytes_max=64 << 20)

    assert ended.code not in (0, None)
    assert b"exceeded the memory limit of its sandbox" in ended.output


async def test_a_file_has_its_bound(plan: Plan) -> None:
    ended = await plan.shell("head -c 10000000 /dev/zero > big", file_bytes_max=1 << 20)

    assert ended.code != 0
    assert (plan.folder / "big").stat().st_size <= 1 << 20


@pytest.mark.parametrize(
    "line",
    [
        "setsid sleep 600 & exit 0",
        "(setsid sh -c 'sleep 600 & sleep 600' &) ; exit 0",
        "env -i setsid sleep 600 & exit 0",
        "trap '' TERM; setsid sleep 600 & sleep 600",
    ],
)
async def test_nothing_outlives_its_command(plan: Plan, line: str) -> None:
    await plan.shell(line, timeout_s=0.7)

    assert enclosures.leftovers(plan.state / "run") == []
    assert not any(b"sleep\x00600" in line for line in enclosures.command_lines(plan.folder))


async def test_the_owner_is_neither_seen_nor_killed_nor_traced(plan: Plan) -> None:
    trace = f"import ctypes; print(ctypes.CDLL(None).ptrace(16, {os.getpid()}, 0, 0))"

    ended = await plan.shell(f'kill -9 {os.getpid()}; kill -9 -1; {PYTHON} -S -c "{trace}"; ps ax 2>/dev/null | wc -l')

    assert b"\n0\n" not in ended.output
    assert ended.ending is ExitCause.EXITED
    assert process_table.has_labels(os.getpid(), "", "") is False  # It lives, and has no label.


async def test_a_link_in_place_of_the_plan_file_is_refused(plan: Plan) -> None:
    (plan.folder / "p.plan.yaml").rename(plan.folder / "real.yaml")
    (plan.folder / "p.plan.yaml").symlink_to("real.yaml")

    ended = await plan.shell("echo x")

    assert ended.ending is ExitCause.NOT_STARTED
    assert b"p.plan.yaml is a link" in ended.output


@pytest.mark.parametrize("way", ["a link out", "another folder", "nothing"])
async def test_a_folder_that_is_put_out_of_its_place_before_it_is_mounted_is_not_worked_in(
    plan: Plan, way: str
) -> None:
    room = plan.folder / "room"
    room.mkdir()
    home = enclosures.home_of(plan.folder)
    command = ProcessCommand(str(room), shell="touch escaped", env=ENV, sandbox=CommandSandbox(2))
    words = bubblewrap.bwrap_argv(enclosures.means(plan.state), home, command)

    room.rename(plan.folder / "away")
    if way == "a link out":
        room.symlink_to(plan.outside)
    elif way == "another folder":
        room.mkdir()
    ended = await anyio.run_process(words, env=ENV, check=False, stderr=subprocess.STDOUT, cwd="/")

    assert ended.returncode != 0
    assert not list(plan.folder.parent.rglob("escaped"))


async def test_a_plans_folder_that_holds_the_owners_home_is_not_worked_in(plan: Plan) -> None:
    room = plan.folder / "room"
    room.mkdir()
    for own in (plan.folder, plan.folder / "me"):
        home = replace(enclosures.home_of(plan.folder), owner_home=str(own))
        command = ProcessCommand(str(room), shell="true", env=ENV, sandbox=CommandSandbox(2))

        with pytest.raises(SandboxUnfit) as caught:
            bubblewrap.bwrap_argv(enclosures.means(plan.state), home, command)
        golden_text.said(str(caught.value))


async def test_our_own_python_is_not_written_where_it_is_in_the_plans_folder(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan.folder / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(plan.folder / ".venv"))

    ended = await plan.shell("echo x > .venv/bin/new; mv .venv away; mkdir -p .venv/bin; echo x > .venv/bin/new")
    monkeypatch.setattr(sys, "prefix", str(plan.folder))
    in_it = await plan.shell("echo x > new", op="b")

    assert ended.code != 0 and list((plan.folder / ".venv" / "bin").iterdir()) == []
    assert in_it.ending is ExitCause.NOT_STARTED and b"planloop is installed in" in in_it.output


async def test_a_program_that_a_command_put_into_path_is_not_what_encloses_the_next(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{plan.folder}/bin:{os.environ['PATH']}")  # noqa: TID251 - whose PATH it is
    put = f"mkdir bin && printf '#!/bin/sh\\ntouch {plan.outside}/escaped\\n' > bin/bwrap && chmod +x bin/bwrap"

    assert (await plan.shell(put)).code == 0 and (plan.folder / "bin" / "bwrap").exists()
    ended = await plan.shell("echo enclosed", op="b")

    assert ended.output == b"enclosed\n" and not (plan.outside / "escaped").exists()


async def test_a_folder_that_a_container_mounts_is_not_put_out_of_its_place(plan: Plan) -> None:
    (plan.folder / "data" / "deep").mkdir(parents=True)
    (plan.folder / "way").symlink_to("data")
    held = tuple(str(plan.folder / name) for name in ("data/deep", "way", "none"))
    box = CommandSandbox(2, held=held)
    line = "mv data away; rm -r data/deep; mv data/deep x; touch data/deep/written && echo wrote"
    ended = await enclosures.enclosing(plan.folder, plan.state / "run").run(
        "a", ProcessCommand(str(plan.folder), shell=line, env=ENV, sandbox=box)
    )

    assert ended.output.count(b"Device or resource busy") == 3 and ended.output.endswith(b"wrote\n")
    assert [path.name for path in (plan.folder / "data" / "deep").iterdir()] == ["written"]


async def test_a_workspace_in_a_folder_that_is_guarded_is_read_only(plan: Plan) -> None:
    box = CommandSandbox(2, guarded=(str(plan.folder / "hooks"),))
    command = ProcessCommand(str(plan.folder / "hooks" / "more"), shell="echo x > new", env=ENV, sandbox=box)

    ended = await enclosures.enclosing(plan.folder, plan.state / "run").run("a", command)

    assert ended.code != 0 and b"Read-only file system" in ended.output


async def test_command_without_a_repository_is_recorded(plan: Plan) -> None:
    await plan.shell("true")
    assert not write_guard.is_repository_untrusted(str(plan.folder))

    shutil.rmtree(plan.folder / ".git")
    ended = await plan.shell("git init -q . && echo made; rm -f .plan/without-repository", op="b")

    assert ended.output.startswith(b"made") and write_guard.is_repository_untrusted(str(plan.folder))


async def test_a_folder_outside_the_plans_is_not_worked_in(plan: Plan) -> None:
    (plan.folder / "way").symlink_to(plan.outside)
    command = ProcessCommand(str(plan.folder / "way"), shell="touch escaped", env=ENV, sandbox=CommandSandbox(2))

    ended = await enclosures.enclosing(plan.folder, plan.state / "run").run("a", command)

    assert ended.ending is ExitCause.NOT_STARTED and b"is outside of the plan's folder" in ended.output


async def test_a_folder_that_became_a_link_since_it_was_looked_at_is_not_worked_in(plan: Plan) -> None:
    (plan.folder / "room").symlink_to(".")
    for name in ("room", "room/room"):
        command = ProcessCommand(
            str(plan.folder / name), shell="touch escaped", env=ENV, sandbox=CommandSandbox(2, is_alone=True)
        )

        ended = await enclosures.enclosing(plan.folder, plan.state / "run").run(name.replace("/", "-"), command)

        assert ended.ending is ExitCause.NOT_STARTED and b"is reached through a link" in ended.output
    assert not list(plan.folder.parent.rglob("escaped"))


async def test_a_plans_folder_may_be_named_by_way_of_a_link(plan: Plan) -> None:
    (plan.folder / "room").mkdir()
    (plan.outside / "way").symlink_to(plan.folder)
    enclosing = enclosures.enclosing(plan.folder, plan.state / "run")
    for name in ("", "room"):
        command = ProcessCommand(
            str(plan.outside / "way" / name), shell="touch made", env=ENV, sandbox=CommandSandbox(2)
        )

        ended = await enclosing.run(f"in-{name}", command)

        assert ended.code == 0 and (plan.folder / name / "made").exists(), ended.output


@pytest.mark.needs("root")
async def test_unprivileged_user_is_enclosed_and_bounded_too(plan: Plan) -> None:
    for place in (plan.folder.parent, *plan.folder.parent.rglob("*")):
        shutil.chown(place, 65534, 65534)
    home = SandboxHome(str(plan.folder), "/usr/bin/python3", (*enclosures.PORTIONS,), "/nonexistent")
    line = "id -u; echo x > .git/config; for i in $(seq 40); do sleep 5 & done; echo done"
    command = ProcessCommand(str(plan.folder), shell=line, env=ENV, sandbox=CommandSandbox(2))
    words = bubblewrap.bwrap_argv(enclosures.means(plan.folder.parent, bound=20), home, command)
    reach = [folder for folder in plan.folder.parents if not folder.stat().st_mode & 0o001]
    for folder in reach:
        folder.chmod(0o711)

    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    ended = await anyio.run_process(as_nobody, env=ENV, check=False, stderr=subprocess.STDOUT, cwd="/")

    assert ended.stdout.startswith(b"65534\n") and b"done" not in ended.stdout
    assert b"Read-only file system" in ended.stdout and b"Cannot fork" in ended.stdout
