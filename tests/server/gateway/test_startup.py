"""How `plan serve` begins and ends, and what it says when it cannot begin."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from planloop.server.gateway import auth
from tests import golden_text
from tests.e2e import command
from tests.e2e.folder import Folder
from tests.server.gateway.gateways import served

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

TWO = "plan: other\nrun: 'true'\n"


@pytest.mark.parametrize(
    ("words", "code", "error", "cure"),
    [
        (["--plan", "nobody"], 6, "unknown plan `nobody`", "plans here: demo"),
        (["--host", "0.0.0.0"], 2, "other machines can reach 0.0.0.0", "--tls-cert"),
        (["--host", "no.such.host.invalid"], 2, "--host no.such.host.invalid", "an address of this machine"),
        (
            ["--host", "203.0.113.7", "--insecure"],
            1,
            "cannot listen on 203.0.113.7",
            "this machine does not have this address",
        ),
        (["--tls-key", "key.pem"], 2, "--tls-key is given without --tls-cert", "give both"),
        (["--tls-cert", "none.pem"], 2, "cannot use none.pem: No such file", "PEM files"),
        (["--tls-cert", "task.yaml"], 2, "cannot use task.yaml", "PEM files"),
        (["--name", "a/b"], 2, "invalid host name `a/b`", "https://HOST"),
        (["--port", "70000"], 2, "70000", ""),
    ],
)
def test_impossible_startup_is_reported_with_a_fix(
    done: Folder, words: list[str], code: int, error: str, cure: str
) -> None:
    said = done.run("serve", "--port", "0", *words)

    assert (said.code, said.out) == (code, "")
    assert error in said.err
    assert cure in said.err


def test_a_port_that_is_taken_is_named(done: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = done.run("serve", "--port", str(other.getsockname()[1]))

    assert said.code == 1
    assert "Address already in use" in said.err
    golden_text.said_in(said.err)


def test_several_plans_cause_a_question(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.done("plan: demo\nrun: 'true'\n")
    folder.done(TWO)

    said = folder.run("serve", "--port", "0")
    assert (said.code, "choose one with --plan: demo, other" in said.err) == (2, True)
    with served(tmp_path, "--plan", "other") as gateway:
        assert gateway.ask("GET", "/v1/session").json["plan"] == "other"


def test_missing_plan_is_reported_with_the_command_that_starts_one(tmp_path: Path) -> None:
    said = Folder(tmp_path).run("serve", "--port", "0")

    assert (said.code, "plan apply FILE" in said.err) == (6, True)


def test_links_stay_good_and_are_for_this_user_alone(done: Folder) -> None:
    with served(done.path) as first:
        pass
    with served(done.path) as second, served(done.path, "--read-only") as third:
        assert (second.change, second.read) == (first.change, first.read)
        assert (third.change, third.read) == ("", first.read)
        assert third.ask("GET", "/v1/session", token=first.change).status == 401
        assert third.ask("POST", third.path("stop"), token=first.read, body=b"{}").status == 403

    file = done.path / ".plan" / "demo" / "links.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # Another user may have read them.
    with served(done.path) as fourth:
        assert {fourth.change, fourth.read}.isdisjoint({first.change, first.read})


def test_damaged_link_is_recreated(tmp_path: Path) -> None:
    file = tmp_path / auth.FILE
    minted = (f"{n:032}" for n in range(100))
    for content in ("", "{}", '{"read": "x", "change": "x"}', "[]", '{"read": 1, "change": null}', "\x00"):
        file.write_text(content)
        file.chmod(0o600)
        made = auth.load_tokens(tmp_path, lambda: next(minted))
        assert json.loads(file.read_text()) == {"read": made.read, "change": made.change}
        assert auth.load_tokens(tmp_path, lambda: next(minted)) == made
    assert list(tmp_path.iterdir()) == [file]


def test_server_ends_by_sigterm_ctrl_c_and_a_closed_terminal(done: Folder) -> None:
    for number in (1, 15):
        with served(done.path) as gateway:
            gateway.process.send_signal(number)
            assert gateway.process.wait() == 0


def test_link_is_one_word_on_a_narrow_terminal(done: Folder) -> None:
    read, write = os.openpty()
    subprocess.run(["stty", "cols", "40"], stdin=write, check=True)
    with command.start("serve", "--port", "0", cwd=done.path, stdin=write, stdout=write, stderr=write) as process:
        seen = b""
        while b"Ctrl-C" not in seen:
            seen += os.read(read, 1000)
        process.terminate()
    os.close(read)
    os.close(write)

    links = [word for word in seen.decode().split() if "#token=" in word]
    assert [len(link.partition("=")[2]) for link in links] == [43, 43]
