"""What a gateway goes by, when it listens on one address, on all of them, under a name, behind a proxy, with TLS."""

from __future__ import annotations

import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from planloop.server.gateway.auth import Scheme, denied_place, site_names
from tests import rows
from tests.e2e.folder import Folder
from tests.product import CommandError
from tests.server.gateway.gateways import listening, served

PROXY = ["https://plan.example.org"]


@rows.each(
    ("asked", "names", "host", "origin", "granted"),
    [
        (("http", 7077), ["localhost"], "localhost:7077", "http://localhost:7077", True),
        (("http", 7077), ["localhost"], "localhost", None, False),
        (("http", 7077), ["localhost"], "127.0.0.1:7077", "http://127.0.0.1:7077", True),
        (("http", 7077), ["localhost"], "127.0.0.1:7077", "https://127.0.0.1:7077", False),
        (("http", 7077), ["localhost"], "127.1:7077", None, False),
        (("http", 80), ["box.lan"], "box.lan", "http://box.lan", True),
        (("http", 80), ["box.lan"], "box.lan:80", "http://box.lan:80", True),
        (("http", 80), [], "127.0.0.1", "http://127.0.0.1", True),
        (("https", 80), ["box.lan"], "box.lan", None, False),
        (("https", 443), ["box.lan"], "box.lan", "https://box.lan", True),
        (("https", 443), ["box.lan"], "box.lan", "http://box.lan", False),
        (("http", 443), ["box.lan"], "box.lan", None, False),
        (("http", 7077), ["box.lan:8080"], "box.lan:8080", "http://box.lan:8080", True),
        (("http", 7077), ["box.lan:8080"], "box.lan:7077", None, False),
        (("http", 7077), ["Box.LAN"], "box.lan:7077", None, True),
        (("http", 7077), PROXY, "plan.example.org", "https://plan.example.org", True),
        (("http", 7077), PROXY, "plan.example.org", "http://plan.example.org.evil", False),
        (("http", 7077), PROXY, "plan.example.org:7077", None, False),
        (("http", 7077), ["https://plan.example.org:443"], "plan.example.org", "https://plan.example.org", True),
        (("http", 7077), ["[::1]"], "[::1]:7077", "http://[::1]:7077", True),
        (("http", 80), ["[fd00::1]"], "[fd00::1]", None, True),
        (("http", 7077), [], "evil.example:7077", None, False),
    ],
)
def test_a_request_is_for_us_by_its_host_and_its_origin(
    asked: tuple[Scheme, int], names: list[str], host: str, origin: str | None, granted: bool
) -> None:
    headers = {"Host": host, **({"Origin": origin} if origin else {})}

    assert (denied_place(headers, site_names(*asked, names), "127.0.0.1") is None) is granted


@pytest.mark.parametrize(
    ("host", "arrived_at", "granted"),
    [
        ("192.168.1.5:7077", "192.168.1.5", True),
        ("192.168.1.6:7077", "192.168.1.5", False),
        ("[fd00::1]:7077", "fd00::1", True),
        ("[fd00:0:0::1]:7077", "fd00::1", True),
        ("[fd00::2]:7077", "fd00::1", False),
        ("192.168.1.5", "192.168.1.5", False),
        ("192.168.1.5:7077", "", False),
    ],
)
def test_an_address_is_ours_when_the_request_arrived_there(host: str, arrived_at: str, granted: bool) -> None:
    assert (denied_place({"Host": host}, site_names("http", 7077, []), arrived_at) is None) is granted


@pytest.mark.parametrize(
    "name", ["", "http://", "ftp://box", "box/path", "box:port", "fd00::1", "a b", "user@box", "https://box/"]
)
def test_invalid_name_is_reported(name: str) -> None:
    with pytest.raises(CommandError):
        site_names("http", 7077, [name])


@pytest.mark.process
def test_on_every_address_the_link_has_the_name_of_the_machine(done: Folder) -> None:
    with served(done.path, "--host", "0.0.0.0", "--insecure") as gateway:
        machine = socket.gethostname().lower()
        assert gateway.netloc == f"{machine}:{gateway.port}"
        for host, status in ((f"127.0.0.1:{gateway.port}", 200), (f"127.0.0.2:{gateway.port}", 421)):
            assert gateway.ask("GET", "/v1/session", headers={"Host": host}).status == status
        # Another address of this machine, reached there, is ours as well.
        there = {"Host": f"127.0.0.2:{gateway.port}"}
        assert gateway.ask("GET", "/v1/session", headers=there, address="127.0.0.2").status == 200


def test_ipv6_address_is_in_brackets(done: Folder) -> None:
    with served(done.path, "--host", "::1") as gateway:
        assert gateway.netloc == f"[::1]:{gateway.port}"
        assert gateway.ask("GET", "/v1/session", address="::1").status == 200


def test_a_name_that_is_asked_for_is_in_the_link(done: Folder) -> None:
    with served(done.path, "--name", PROXY[0], "--name", "box.lan:8080") as gateway:
        assert gateway.said[0].startswith(f"demo  {PROXY[0]}/#token=")
        assert "token=" not in "".join(gateway.said[2:])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for `localhost` and 127.0.0.1, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "cert.pem", folder / "key.pem"
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", *options, *names, "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def test_tls_is_announced_and_served_and_plain_http_gets_nothing(done: Folder, certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    trusting = ssl.create_default_context(cafile=str(made))
    with served(done.path, "--host", "0.0.0.0", "--tls-cert", str(made), "--tls-key", str(key)) as gateway:
        assert gateway.scheme == "https"
        host = {"Host": f"127.0.0.1:{gateway.port}"}
        own = {**host, "Origin": f"https://127.0.0.1:{gateway.port}"}
        assert gateway.ask("GET", "/v1/session", headers=own, tls=trusting).json["right"] == "change"
        plain = {**host, "Origin": f"http://127.0.0.1:{gateway.port}"}
        assert gateway.ask("GET", "/v1/session", headers=plain, tls=trusting).status == 403
        with pytest.raises((OSError, ValueError)):
            gateway.ask("GET", "/v1/session", headers=host)


@pytest.mark.anyio
async def test_the_tail_goes_over_tls(done: Folder, certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    with served(done.path, "--host", "localhost", "--tls-cert", str(made), "--tls-key", str(key)) as gateway:
        trusting = ssl.create_default_context(cafile=str(made))
        async with listening(gateway, "after=0", tls=trusting) as socket:
            assert (await socket.receive_json())["records"][0]["rev"] == 1
