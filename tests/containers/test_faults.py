"""What engines say in prose becomes a reason with a cure; the words are theirs."""

from __future__ import annotations

import re

import pytest

from planloop.containers import docker_faults
from tests.product import HEALS, Reason

SAID = [
    ("No such image: redis:7", Reason.NO_IMAGE),
    ("pull access denied for nobody/x, repository does not exist or may require 'docker login'", Reason.NO_IMAGE),
    ("manifest for redis:nope not found: manifest unknown: manifest unknown", Reason.NO_IMAGE),
    ("localhost/redis:7: image not known", Reason.NO_IMAGE),
    ("invalid reference format: repository name must be lowercase", Reason.NO_IMAGE),
    ("Head https://r.example/v2/x: unauthorized: authentication required", Reason.NO_IMAGE),
    ('Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host', Reason.NO_REGISTRY),
    ("toomanyrequests: You have reached your pull rate limit", Reason.NO_REGISTRY),
    ("Get https://r.example/v2/: net/http: TLS handshake timeout", Reason.NO_REGISTRY),
    (
        "driver failed programming external connectivity on endpoint a (1f): Bind for 127.0.0.1:80 failed: "
        "port is already allocated",
        Reason.PORT_TAKEN,
    ),
    (
        "driver failed programming external connectivity on endpoint a (1f): Error starting userland proxy: "
        "listen tcp4 127.0.0.1:80: bind: address already in use",
        Reason.PORT_TAKEN,
    ),
    (
        "driver failed programming external connectivity on endpoint a (1f): Error starting userland proxy: "
        "listen tcp4 127.0.0.1:80: bind: permission denied",
        Reason.PORT_TAKEN,
    ),
    ('Conflict. The container name "/a" is already in use by container "1f".', Reason.NAME_TAKEN),
    ("network with name a already exists", Reason.NAME_TAKEN),
    (
        "failed to create task for container: failed to create shim task: OCI runtime create failed: "
        'runc create failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown',
        Reason.NO_COMMAND,
    ),
    ('OCI runtime create failed: exec: "/etc/x": permission denied: unknown', Reason.NO_COMMAND),
    ("standard_init_linux.go:228: exec user process caused: exec format error", Reason.NO_COMMAND),
    (
        'runc: runc create failed: unable to start container process: error mounting "tmpfs" to rootfs at "/w": '
        "no such file or directory: OCI runtime attempted to invoke a command that was not found",
        Reason.REFUSED,
    ),
    ("No command specified", Reason.NO_COMMAND),
    ("unable to find user nobodyx: no matching entries in passwd file", Reason.REFUSED),
    ("write /var/lib/docker/tmp/x: no space left on device", Reason.DISK_FULL),
    (
        "failed to update store for object type *libnetwork.endpoint: open : no such file or directory",
        Reason.ENGINE_DOWN,
    ),
    ("grpc: the client connection is closing: unknown", Reason.ENGINE_DOWN),
    ("Container 1f is not running", Reason.NOT_RUNNING),
    ("Container 1f is paused, unpause the container before exec", Reason.NOT_RUNNING),
    ("No such container: a", Reason.NOT_FOUND),
    ("network a not found", Reason.NOT_FOUND),
    ("get a: no such volume", Reason.NOT_FOUND),
    ('no container with name or ID "a" found: no such container', Reason.NOT_FOUND),
    ('invalid mount config for type "bind": bind source path does not exist: /none', Reason.REFUSED),
    ("could not find an available, non-overlapping IPv4 address pool among the defaults", Reason.REFUSED),
    ("could not find bridge docker0: route ip+net: no such network interface", Reason.REFUSED),
    ("error while removing network: network a id 1f has active endpoints", Reason.REFUSED),
    ('"a" has associated containers with it. Use -f to forcibly delete: network is being used', Reason.REFUSED),
    ("something that nobody has seen before", Reason.REFUSED),
]


@pytest.mark.parametrize(("said", "reason"), SAID, ids=[said[:40] for said, _ in SAID])
def test_words_of_an_engine_become_a_reason(said: str, reason: Reason) -> None:
    failed = docker_faults.refusal(said)

    assert failed.reason is reason
    assert said.rpartition(": ")[2].strip() in str(failed), "its own words are not lost"


def test_what_heals_or_can_be_mended_says_how() -> None:
    mute = {Reason.NOT_FOUND, Reason.NOT_RUNNING}
    failures = [docker_faults.refusal(said) for said, reason in SAID if reason not in mute | {Reason.REFUSED}]

    assert [failed for failed in failures if not failed.hint] == []
    assert {failed.reason for failed in failures} >= HEALS - {Reason.ENGINE_DOWN, Reason.TIMED_OUT, Reason.NO_SECRET}


def test_what_nobody_foresaw_is_told_by_the_status_and_in_its_own_words() -> None:
    assert docker_faults.refusal("gone fishing", status=404).reason is Reason.NOT_FOUND
    assert docker_faults.refusal("Not Found", status=404).reason is Reason.REFUSED, "the call, and not what it is about"
    assert len(str(docker_faults.refusal("x" * 10_000))) < 1_000


def test_a_port_that_is_taken_is_named() -> None:
    failures = [str(docker_faults.refusal(said)) for said, reason in SAID if reason is Reason.PORT_TAKEN]

    assert len(failures) > 1
    for failed in failures:
        assert re.match("port 80 is taken: |the engine may not open port 80: ", failed)
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
def test_what_an_init_process_could_not_run_is_told_without_its_own_name(line: str, said: str) -> None:
    assert docker_faults.said_by_init(line, "server") == said
