"""Reports over TCP: with a token only, below their folder only, and as nothing that a browser would run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import anyio
import pytest

from tests import golden_text
from tests.e2e import bench_suite
from tests.e2e.folder import Folder
from tests.product import decode, sha256_hex
from tests.server.gateway.gateways import Served, served

SCRIPT = b"<html><script>alert(1)</script></html>"
RUN = "/v1/runs/mixed/first"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Reports of a real run without a plan, next to a secret file."""
    folder = Folder(tmp_path_factory.mktemp("bench"))
    bench_suite.lay(folder)
    said = folder.run("bench", "run", "suite.yaml", "--model", "oracle", "--model", "nop", "--name", "first")
    assert said.code == 0, said.text
    folder.write("secret.json", '{"secret": "hidden"}')
    blobs = folder.path / "reports" / "mixed" / "first" / "blobs"
    blobs.mkdir(exist_ok=True)
    (blobs / sha256_hex(SCRIPT)).write_bytes(SCRIPT)
    (blobs / sha256_hex(b"linked")).symlink_to(folder.path / "secret.json")
    return folder


@pytest.fixture(scope="module")
def gateway(folder: Folder) -> Iterator[Served]:
    with served(folder.path) as gateway:
        yield gateway


@pytest.mark.parametrize(
    "path", ["/v1/suites", "/v1/runs", RUN, f"{RUN}/cases/writes", f"{RUN}/cases/writes?model=oracle&trial=1",
             "/v1/comparison?runs=mixed/first", f"{RUN}/blobs/{sha256_hex(SCRIPT)}", f"{RUN}/tail"]
)  # fmt: skip
def test_reports_are_served_only_with_a_token(gateway: Served, path: str) -> None:
    assert gateway.ask("GET", path, token="").status == 401
    assert gateway.ask("POST", path, token=gateway.read, body=b"{}").status in (400, 403, 405)


def test_a_link_that_may_only_look_has_all_of_it(gateway: Served) -> None:
    assert gateway.change == "", "there is nothing to change where no plan is"
    runs = gateway.ask("GET", "/v1/runs", token=gateway.read).json["runs"]
    assert [(one["suite"], one["run"], one["state"]) for one in runs] == [("mixed", "first", "complete")]
    told = gateway.ask("GET", RUN, token=gateway.read).json
    assert told["report"]["sections"][0]["oracle"] == 1.0
    entry = gateway.ask("GET", f"{RUN}/cases/writes?model=oracle&trial=1", token=gateway.read).json
    assert entry["verdict"] == "pass"
    assert gateway.ask("GET", "/v1/session", token=gateway.read).json == {"plan": "", "right": "read"}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs/../first",
        "/v1/runs/mixed/..",
        "/v1/runs/..%2F..%2Fetc/passwd",
        "/v1/runs/mixed/first%2F..%2F..",
        "/v1/runs/%2e%2e/%2e%2e",
        "/v1/runs/mixed/first%00",
        f"{RUN}/blobs/..%2F..%2F..%2F..%2Fsecret.json",
        f"{RUN}/blobs/{sha256_hex(b'linked')}",
        f"{RUN}/blobs/plan.json",
        f"{RUN}/cases/..%2Fplan.json",
        f"{RUN}/cases/writes?model=..%2Foracle&trial=1",
        "/v1/comparison?runs=../mixed/first",
        "/v1/suites/..%2Fsuite.yaml",
        "/v1/suites/%2Fetc%2Fpasswd",
    ],
)
def test_no_path_leaves_the_reports(gateway: Served, path: str) -> None:
    answer = gateway.ask("GET", path, token=gateway.read)

    assert answer.status in (400, 404), answer
    assert b"hidden" not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "path",
    [f"{RUN}/cases/writes?model=oracle&trial=x", f"{RUN}/tail?after=-1", "/v1/comparison", f"{RUN}/cases/none"],
)
def test_unanswerable_request_is_refused_with_a_message(gateway: Served, path: str) -> None:
    answer = gateway.ask("GET", path, token=gateway.read)

    assert 400 <= answer.status < 500
    assert answer.summary


def test_text_of_an_agent_is_served_as_text_that_is_not_run(gateway: Served) -> None:
    answer = gateway.ask("GET", f"{RUN}/blobs/{sha256_hex(SCRIPT)}", token=gateway.read)

    assert answer.body == SCRIPT
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_follower_of_a_run_gets_what_is_written_and_resumes_where_it_was(gateway: Served, folder: Folder) -> None:
    run = folder.path / "reports" / "mixed" / "grown"
    first = run.parent / "first"
    run.mkdir()
    (run / "plan.json").write_bytes((first / "plan.json").read_bytes())
    lines = (first / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:5]))

    async def follow() -> None:
        headers = {"Authorization": f"Bearer {gateway.read}"}
        url = f"{gateway.origin}/v1/runs/mixed/grown/tail"
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.ws_connect(url, protocols=("planloop.v1",)) as socket:
                frame = decode((await socket.receive()).data)
                assert (frame["seq"], frame["state"]) == (5, "ended")
                golden_text.said(frame["events"][0]["words"])
                await anyio.to_thread.run_sync(_append, run, lines[5:9])
                frame = decode((await socket.receive()).data)
                assert frame["seq"] == 9
                assert [one["seq"] for one in frame["events"]] == [seq for seq in _told(lines) if 5 < seq <= 9]
            async with session.ws_connect(f"{url}?after=9", protocols=("planloop.v1",)) as socket:
                await anyio.to_thread.run_sync(_append, run, lines[9:])
                seen: list[int] = []
                words: dict[str, str] = {}
                while len(lines) not in seen:
                    frame = decode((await socket.receive()).data)
                    words |= {one["type"]: one["words"] for one in frame["events"]}
                    seen += [one["seq"] for one in frame["events"]] + (
                        [len(lines)] if frame["seq"] == len(lines) else []
                    )
                assert min(seen, default=10) > 9
                assert words["check/result"].partition(": ")[2] in ("pass", "fail"), words

    anyio.run(follow)
    assert gateway.ask("GET", "/v1/runs/mixed/grown", token=gateway.read).json["done"] == 2 * bench_suite.CASES


def _append(run: Path, lines: list[bytes]) -> None:
    with (run / "events.jsonl").open("ab") as file:
        file.write(b"".join(lines))


def _told(lines: list[bytes]) -> list[int]:
    kinds = ("run/open", "run/close", "case/start", "tool/call", "check/result", "case/end")
    return [one["seq"] for one in map(json.loads, lines) if one["type"] in kinds]


@pytest.mark.process
def test_reports_of_another_folder_are_served_beside_the_plan(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path)
    other.done("plan: demo\ntasks:\n  one: {run: 'true'}\n")
    with served(tmp_path, "--reports", str(folder.path / "reports")) as gateway:
        assert gateway.plan == "demo"
        runs = gateway.ask("GET", "/v1/runs").json["runs"]
        assert "first" in [one["run"] for one in runs]
    with served(tmp_path) as gateway:
        assert gateway.ask("GET", "/v1/runs").json == {"runs": [], "left": 0}


def test_folder_with_neither_plan_nor_reports_is_reported(tmp_path: Path) -> None:
    said = Folder(tmp_path).run("serve", "--port", "0")

    assert said.code == 6
    assert "no plan" in said.err
