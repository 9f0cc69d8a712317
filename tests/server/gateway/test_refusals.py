"""What a real `plan serve` turns away, and what its answers carry so that a browser turns the rest away."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.server.gateway.auth import HEADERS
from tests import golden_text
from tests.server.gateway.gateways import Served

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.process
def test_session_reports_the_right_of_its_link(gateway: Served) -> None:
    told = gateway.ask("GET", "/v1/session").json, gateway.ask("GET", "/v1/session", token=gateway.read).json

    assert told == ({"plan": "demo", "right": "change"}, {"plan": "demo", "right": "read"})


@pytest.mark.parametrize("path", ["session", "plans/demo/status", "plans/demo/tail?after=0", "openapi.json", "nothing"])
@pytest.mark.parametrize("token", ["", "wrong", "x" * 43, "\u00e9\u00e8"])
def test_api_answers_only_with_the_token(gateway: Served, path: str, token: str) -> None:
    for headers in ({}, UPGRADE):
        assert gateway.ask("GET", f"/v1/{path}", token=token, headers=headers).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "token={token}"},
        {"Authorization": "Basic {token}"},
        {"Authorization": "{token}"},
        {"Authorization": "Bearer {token}x"},
        {"X-Forwarded-Authorization": "Bearer {token}"},
        {"Sec-WebSocket-Protocol": "{token}"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_a_token_counts_only_where_no_foreign_page_can_put_it(gateway: Served, headers: dict[str, str]) -> None:
    said = {name: value.format(token=gateway.change) for name, value in headers.items()}

    assert gateway.ask("GET", "/v1/session", token="", headers=said).status == 401
    assert gateway.ask("GET", f"/v1/session?token={gateway.change}", token="").status == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.2:{port}",
        "localhost",
        "localhost.evil.example:{port}",
        "[::1]:{port}",
        "0.0.0.0:{port}",
        "2130706433:{port}",
        "127.0.0.1:{port}@evil.example",
        "127.0.0.1:{port}.evil.example",
        "",
    ],
)
def test_foreign_host_is_rejected_even_for_the_page(gateway: Served, host: str) -> None:
    headers = {"Host": host.format(port=gateway.port)}

    # Without any Host the HTTP library itself may have said no.
    assert gateway.ask("GET", "/", headers=headers).status in ((421,) if host else (400, 421))
    assert gateway.ask("GET", "/v1/session", headers=headers).status in ((421,) if host else (400, 421))


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_own_host_names_are_answered(gateway: Served, host: str) -> None:
    headers = {"Host": host.format(port=gateway.port)}

    assert gateway.ask("GET", "/v1/session", headers=headers).status == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "https://127.0.0.1:{port}", "file://"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_site_is_turned_away(gateway: Served, origin: str, method: str) -> None:
    headers = {"Origin": origin.format(port=gateway.port)}

    for path in ("/v1/session", gateway.path("patch"), "/"):
        answer = gateway.ask(method, path, headers=headers, body=b"{}" if method == "POST" else None)
        assert answer.status == 403, answer
        assert not any(name.startswith("access-control-") for name in answer.headers)
    assert gateway.ask("GET", gateway.path("tail?after=0"), headers={**UPGRADE, **headers}).status == 403


def test_own_page_may_ask(gateway: Served) -> None:
    assert gateway.ask("GET", "/v1/session", headers={"Origin": gateway.origin}).status == 200


@pytest.mark.parametrize("path", ["status", "objects", "objects/task/greet", "why?at=/goal", "tail?after=0", "log"])
def test_another_plan_is_not_served(gateway: Served, path: str) -> None:
    for plan in ("other", "demo2", "..", "%2e%2e", "demo%2f..%2fother", "."):
        answer = gateway.ask("GET", f"/v1/plans/{plan}/{path}", headers=UPGRADE if path.startswith("tail") else {})
        assert answer.status == 404, answer
    assert gateway.ask("POST", "/v1/plans/other/stop", body=b"{}").status == 404


@pytest.mark.parametrize("path", ["patch", "stop", "send", "session", "edit/apply", "nothing"])
def test_the_link_to_look_changes_nothing(gateway: Served, path: str) -> None:
    answer = gateway.ask("POST", gateway.path(path), token=gateway.read, body=b"{}")

    assert answer.status == 403
    golden_text.said(answer.summary)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FETCH"])
def test_methods_that_do_nothing_here_are_refused(gateway: Served, method: str) -> None:
    for path in (gateway.path("objects"), "/v1/session", "/", "/assets/x.js"):
        assert gateway.ask(method, path).status in (400, 404, 405)
        assert gateway.ask(method, path, token=gateway.read).status in (400, 403, 404, 405)


def test_a_get_changes_nothing(gateway: Served) -> None:
    before = gateway.get("status")["rev"]

    for path in ("stop", "patch", "approve", "rollback?rev=1", "session", "send"):
        assert gateway.ask("GET", gateway.path(path)).status in (400, 404, 405)
        assert gateway.ask("HEAD", gateway.path(path)).status in (400, 404, 405)

    assert gateway.get("status")["rev"] == before


def test_head_is_a_get_without_its_body(gateway: Served) -> None:
    for path in (gateway.path("objects"), "/", "/plan/task/greet"):
        head, get = gateway.ask("HEAD", path), gateway.ask("GET", path)
        assert (head.status, head.body, head.headers["content-type"]) == (200, b"", get.headers["content-type"])


@pytest.mark.parametrize(
    "path",
    [
        "/../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/%2e%2e/wiring.py",
        "/assets/..%5c..%5cwiring.py",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/index.html%00.js",
        "/.plan/demo/links.json",
        "/wiring.py",
        "/~root/.ssh/id_rsa",
        pytest.param("/" + "a" * 300, id="a name too long for a file"),
    ],
)
def test_no_path_escapes_the_page(gateway: Served, page: Path, path: str) -> None:
    answer = gateway.ask("GET", path, token="")

    assert answer.status in (400, 404) or answer.body == (page / "index.html").read_bytes(), answer


@pytest.mark.parametrize(
    "path",
    [
        "output/%2e%2e%2fsecret",
        "output/..%2f..%2f..%2f..%2ftmp%2fsecret",
        "output/%2ftmp%2fsecret",
        "blobs/%2e%2e%2flinks.json",
        "objects/..%2f..%2flinks.json",
        "objects/task%2f%00",
    ],
)
def test_no_path_escapes_the_state_of_the_plan(gateway: Served, done_secret: str, path: str) -> None:
    answer = gateway.ask("GET", gateway.path(path), token=gateway.read)

    assert done_secret not in answer.body.decode()
    assert answer.status in (200, 400, 404)


@pytest.fixture(scope="module")
def done_secret(gateway: Served, done: object) -> str:
    """What stands in a file beside the plan's own."""
    (state,) = (done.path / ".plan").iterdir()  # type: ignore[attr-defined]
    (state / "secret.out").write_text("nobody's business")
    return "nobody's business"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"Upgrade": ""}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Connection": "close"}, 400),
        ({"Sec-WebSocket-Version": "12"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Key": ""}, 400),
        ({"Sec-WebSocket-Protocol": "other"}, 400),
        ({"Sec-WebSocket-Protocol": "planloop.v2, token.{token}"}, 400),
    ],
)
def test_invalid_handshake_is_refused_with_a_message(gateway: Served, change: dict[str, str], status: int) -> None:
    said = {name: value.format(token=gateway.change) for name, value in change.items()}

    answer = gateway.ask("GET", gateway.path("tail?after=0"), headers={**UPGRADE, **said})

    assert answer.status == status, answer
    assert answer.summary
    assert gateway.change not in answer.body.decode()


def test_browser_listens_with_the_token_beside_the_protocol(gateway: Served) -> None:
    offered = {"Origin": gateway.origin, "Sec-WebSocket-Protocol": f"planloop.v1, token.{gateway.read}"}

    answer = gateway.ask("GET", gateway.path("tail?after=0"), token="", headers={**UPGRADE, **offered})

    assert (answer.status, answer.headers["sec-websocket-protocol"]) == (101, "planloop.v1")


def test_a_body_that_is_too_large_or_no_map_is_refused(gateway: Served) -> None:
    asked = [gateway.ask("POST", gateway.path("patch"), body=body).status for body in (b"[1]", b"{", b"\xff", b'"x"')]
    huge = gateway.ask("POST", gateway.path("patch"), headers={"Content-Length": str(1 << 40)})

    assert asked == [400] * 4
    assert huge.status == 413


@pytest.mark.parametrize("path", ["/", "/v1/session", "/v1/nothing", "/assets/none.js", "/v1/plans/demo/objects"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_every_response_has_strict_browser_headers(gateway: Served, path: str, method: str) -> None:
    for token in (None, ""):
        answer = gateway.ask(method, path, token=token)
        said = {name: answer.headers.get(name.lower()) for name in HEADERS}
        assert said == dict(HEADERS)
        assert "aiohttp" not in answer.headers.get("server", ""), "the response reveals no version"


def test_only_assets_are_cached_forever(gateway: Served, page: Path) -> None:
    asset = next(file for file in sorted((page / "assets").iterdir()) if file.suffix == ".js")

    found = gateway.ask("GET", f"/assets/{asset.name}", token="")
    assert (found.status, found.body) == (200, asset.read_bytes())
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "javascript" in found.headers["content-type"]
    for path in ("/", "/plan/task/greet", "/index.html"):
        page_file = gateway.ask("GET", path, token="")
        assert (page_file.headers["cache-control"], page_file.headers["content-type"]) == ("no-cache", "text/html")
    for path in ("/v1/session", gateway.path("objects"), "/assets/of-another-version.js"):
        assert gateway.ask("GET", path).headers["cache-control"] == "no-store"
    assert gateway.ask("GET", "/assets/of-another-version.js").status == 404


def test_a_page_that_is_known_is_not_sent_again(gateway: Served) -> None:
    etag = gateway.ask("GET", "/").headers["etag"]

    assert gateway.ask("GET", "/", headers={"If-None-Match": etag}).status == 304
