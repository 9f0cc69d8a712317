"""The page words containers in TypeScript as the command line does: both are held to one corpus.

`web/tests/corpus/containers.json` is written from here (`make docs`) and read by `web/tests/containers.test.ts`.
"""

from __future__ import annotations

import json
from typing import Any

from planloop.client.render import containers
from planloop.schemas.objects.container import ContainerSpec, ContainerState, Port
from tests.architecture.tree import ROOT
from tests.product import JsonObject, Resource, Uid

CORPUS = ROOT / "web" / "tests" / "corpus" / "containers.json"
DIGEST = f"app@sha256:{'0123456789abcdef' * 4}"
RUNS = {"run": "running", "started_at": 100.0, "ports": [[8080, 32768], [9, 9]]}
ENDED = {"run": "exited", "started_at": 100.0, "ended_at": 160.5, "exit_code": 1, "ports": [[8080, 32768]]}


def _one(name: str, spec: ContainerSpec, status: JsonObject, **more: Any) -> Resource:
    return Resource(f"container/{name}", Uid(name), 1, spec.to_json(), status, **more)


def _ready(message: str, *unblocks: str) -> JsonObject:
    told = {"status": "False", "reason": "NoImage", "message": message, "since": 10.0, "observed_generation": 1}
    return {"conditions": {"Ready": {**told, "unblocks": list(unblocks)}}}


FOUND = (
    _one("new", ContainerSpec(image="redis:7"), {}),
    _one(
        "up", ContainerSpec(image=DIGEST, cmd=("httpd", "-p", "8080")), {"state": "running", "seen": RUNS, "starts": 1}
    ),
    _one(
        "well",
        ContainerSpec(image="a", entrypoint=("sh", "-c"), cmd=("echo 'it is'; exit",)),
        {"state": "healthy", "seen": RUNS, "starts": 3, **_ready("it was not")},
    ),
    _one(
        "ended",
        ContainerSpec(image="a", cmd=("",)),
        {"state": "failed", "seen": ENDED, "starts": 2, **_ready("it ended\nbadly")},
    ),
    _one("done", ContainerSpec(image="a", cmd=("true",)), {"state": ContainerState.COMPLETED, "seen": ENDED}),
    _one(
        "asks",
        ContainerSpec(image="a"),
        {"state": "waiting", "engine": True, **_ready("no answer", "start docker", "b")},
    ),
    _one("lacks", ContainerSpec(image="a"), {"state": "waiting", **_ready("no such image", "docker pull a")}),
    _one("made", ContainerSpec(build={"folder": "web"}), {"state": "preparing"}),
    _one("here", ContainerSpec(build={"inline": "FROM x"}), {"state": "starting"}),
    _one("tree", ContainerSpec(rootfs="root.tar", ports=(Port(1, 2),)), {"state": "stopping"}, deleting=True),
)


def test_containers_are_worded_equally(is_updating: bool) -> None:
    rows = []
    for item in FOUND:
        _, state, source, ports, _, restarts, what = containers.container_row(item, 200.0)
        words = {"state": state, "source": source, "ports": ports, "restarts": restarts, "what": what}
        rows.append({"object": item.to_json(), **words})
    text = (
        json.dumps(
            {"containers": rows, "headline": containers.containers_headline(FOUND)}, indent=1, ensure_ascii=False
        )
        + "\n"
    )
    if is_updating:
        CORPUS.write_text(text)

    assert CORPUS.read_text() == text, "run `make docs`, then `npx vitest run` in web"
