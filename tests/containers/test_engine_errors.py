"""Messages of engines are translated to reasons with hints. The messages are real."""

from __future__ import annotations

import re

import pytest

from planloop.containers.engine import docker_errors
from tests.product import HEALS, EngineErrorReason

SAID = [
    ("No such image: redis:7", EngineErrorReason.NO_IMAGE),
    (
        "pull access denied for nobody/x, repository does not exist or may require 'docker login'",
        EngineErrorReason.NO_IMAGE,
    ),
    ("manifest for redis:nope not found: manifest unknown: manifest unknown", EngineErrorReason.NO_IMAGE),
    ("localhost/redis:7: image not known", EngineErrorReason.NO_IMAGE),
    ("invalid reference format: repository name must be lowercase", EngineErrorReason.NO_IMAGE),
    ("Head https://r.example/v2/x: unauthorized: authentication required", EngineErrorReason.NO_IMAGE),
    (
        'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
        EngineErrorReason.NO_REGISTRY,
    ),
    ("toomanyrequests: You have reached your pull rate limit", EngineErrorReason.NO_REGISTRY),
    ("Get https://r.example/v2/: net/http: TLS handshake timeout", EngineErrorReason.NO_REGISTRY),
    (
        "driver failed programming external connectivity on endpoint a (1f): Bind for 127.0.0.1:80 failed: "
        "port is already allocated",
        EngineErrorReason.PORT_TAKEN,
    ),
    (
        "driver failed programming external connectivity on endpoint a (1f): Error starting userland proxy: "
        "listen tcp4 127.0.0.1:80: bind: address already in use",
        EngineErrorReason.PORT_TAKEN,
    ),
    (
        "driver failed programming external connectivity on endpoint a (1f): Error starting userland proxy: "
        "listen tcp4 127.0.0.1:80: bind: permission denied",
        EngineErrorReason.PORT_TAKEN,
    ),
    ('Conflict. The container name "/a" is already in use by container "1f".', EngineErrorReason.NAME_TAKEN),
    ("network with name a already exists", EngineErrorReason.NAME_TAKEN),
    (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: "
        'runc create failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown',
        EngineErrorReason.NO_COMMAND,
    ),
    ('OCI runtime create failed: exec: "/etc/x": permission denied: unknown', EngineErrorReason.NO_COMMAND),
    ("standard_init_linux.go:228: exec user process caused: exec format error", EngineErrorReason.NO_COMMAND),
    (
        'runc: runc create failed: unable to start container process: error mounting "tmpfs" to rootfs at "/w": '
        "no such file or directory: OCI runtime attempted to invoke a command that was not found",
        EngineErrorReason.REFUSED,
    ),
    ("No command specified", EngineErrorReason.NO_COMMAND),
    ("unable to find user nobodyx: no matching entries in passwd file", EngineErrorReason.REFUSED),
    ("write /var/lib/docker/tmp/x: no space left on device", EngineErrorReason.DISK_FULL),
    (
        "failed to update store for object type *libnetwork.endpoint: open : no such file or directory",
        EngineErrorReason.ENGINE_DOWN,
    ),
    ("grpc: the client connection is closing: unknown", EngineErrorReason.ENGINE_DOWN),
    ("Container 1f is not running", EngineErrorReason.NOT_RUNNING),
    ("Container 1f is paused, unpause the container before exec", EngineErrorReason.NOT_RUNNING),
    ("No such container: a", EngineErrorReason.NOT_FOUND),
    ("network a not found", EngineErrorReason.NOT_FOUND),
    ("get a: no such volume", EngineErrorReason.NOT_FOUND),
    ('no container with name or ID "a" found: no such container', EngineErrorReason.NOT_FOUND),
    ('invalid mount config for type "bind": bind source path does not exist: /none', EngineErrorReason.REFUSED),
    ("could not find an available, non-overlapping IPv4 address pool among the defaults", EngineErrorReason.REFUSED),
    ("could not find bridge docker0: route ip+net: no such network interface", EngineErrorReason.REFUSED),
    ("error while removing network: network a id 1f has active endpoints", EngineErrorReason.REFUSED),
    (
        '"a" has associated containers with it. Use -f to forcibly delete: network is being used',
        EngineErrorReason.REFUSED,
    ),
    ("an unknown message", EngineErrorReason.REFUSED),
]


@pytest.mark.parametrize(("said", "reason"), SAID, ids=[said[:40] for said, _ in SAID])
def test_message_of_an_engine_becomes_a_reason(said: str, reason: EngineErrorReason) -> None:
    failed = docker_errors.engine_error(said)

    assert failed.reason is reason
    assert said.rpartition(": ")[2].strip() in str(failed), "its own words are not lost"


def test_transient_or_repairable_error_has_a_hint() -> None:
    mute = {EngineErrorReason.NOT_FOUND, EngineErrorReason.NOT_RUNNING}
    failures = [
        docker_errors.engine_error(said) for said, reason in SAID if reason not in mute | {EngineErrorReason.REFUSED}
    ]

    assert [failed for failed in failures if not failed.hint] == []
    assert {failed.reason for failed in failures} >= HEALS - {
        EngineErrorReason.ENGINE_DOWN,
        EngineErrorReason.TIMED_OUT,
        EngineErrorReason.NO_SECRET,
    }


def test_unexpected_error_is_reported_by_its_status_and_text() -> None:
    assert docker_errors.engine_error("gone fishing", status=404).reason is EngineErrorReason.NOT_FOUND
    assert docker_errors.engine_error("Not Found", status=404).reason is EngineErrorReason.REFUSED, (
        "the call, and not its object"
    )
    assert len(str(docker_errors.engine_error("x" * 10_000))) < 1_000


def test_a_port_that_is_taken_is_named() -> None:
    failures = [
        str(docker_errors.engine_error(said)) for said, reason in SAID if reason is EngineErrorReason.PORT_TAKEN
    ]

    assert len(failures) > 1
    for failed in failures:
        assert re.match("port 80 is in use: |the engine is not allowed to open port 80: ", failed)
        assert "endpoint" not in failed, "which is another one in each try"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "[FATAL tini (7)] exec server failed: No such file or directory\n",
            "exec server failed: No such file or directory",
        ),
        ("[FATAL  tini (1)] exec server failed: Permission denied", "exec server failed: Permission denied"),
        (
            "FATAL (catatonit:2): failed to exec pid1: No such file or directory",
            "server: failed to exec pid1: No such file or directory",
        ),
        (
            "ERROR (catatonit:2): failed to exec pid1: Exec format error",
            "server: failed to exec pid1: Exec format error",
        ),
        ("sh: tini: not found", ""),
        ("FATAL: the database is gone", ""),
        ("", ""),
    ],
)
def test_error_of_an_init_process_is_reported_without_its_name(line: str, said: str) -> None:
    assert docker_errors.init_error(line, "server") == said


NO_NETWORK = [
    "W: Failed to fetch http://deb.debian.org/debian/dists/x: Temporary failure resolving 'deb.debian.org'",
    "curl: (6) Could not resolve host: example.org",
    "wget: bad address 'example.org'",
    "npm ERR! code EAI_AGAIN",
    "NewConnectionError: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution",
    'Get "https://r.example/v2/": net/http: request canceled (Client.Timeout exceeded while awaiting headers)',
]
OWN_FAILURES = [
    "npm ERR! Could not resolve dependency: react@18",
    "E: Unable to locate package foo",
    "The command '/bin/sh -c make' returned a non-zero code: 2",
]


def test_build_output_shows_whether_the_step_could_reach_the_network() -> None:
    assert [said for said in (*NO_NETWORK, *OWN_FAILURES) if docker_errors.has_no_network(said)] == NO_NETWORK
