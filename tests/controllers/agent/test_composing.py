"""Compose files as agents give them: read as data, and what a plan cannot say is refused by its name."""

from __future__ import annotations

import pytest

from planloop.controllers.agent.tools.containers import read_compose_file
from planloop.controllers.agent.tools.errors import ToolFailed

FILE = b"""\
version: "3.8"
services:
  db:
    image: redis:7
    command: redis-server --port "6379"
    environment: {A: 1, B: $$x}
    ports: ["127.0.0.1:7000:6379", 8080, {target: 80}]
    volumes: ["./data:/data:ro", "cache:/c", "/tmp", {type: bind, source: ./x, target: /x}]
    healthcheck: {test: redis-cli ping, interval: 1m30s, retries: 5}
    restart: unless-stopped
    mem_limit: 64mb
    init: true
  app:
    image: node
    depends_on: [db]
    network_mode: none
volumes: {cache: }
"""


def test_services_become_containers_with_paths_from_the_plan() -> None:
    assert read_compose_file(FILE, "compose.yaml", "web") == {
        "db": {
            "image": "redis:7",
            "cmd": ["redis-server", "--port", "6379"],
            "env": {"A": 1, "B": "$x"},
            "ports": [{"container": 6379, "host": 7000}, {"container": 8080}, {"container": 80}],
            "mounts": [
                {"container": "/data", "read-only": True, "host": "web/data"},
                {"container": "/c", "volume": "cache"},
                {"container": "/tmp", "tmpfs": True},
                {"container": "/x", "host": "web/x"},
            ],
            "health": {"cmd": "redis-cli ping", "retries": 5, "interval": 90.0},
            "restart": "always",
            "limits": {"memory": "64m"},
        },
        "app": {"image": "node", "needs": {"db": "started"}, "networks": ["none"]},
    }


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("privileged: true", "`x.privileged`"),
        ("network_mode: host", "`x.network_mode`"),
        ("pid: host", "`x.pid`"),
        ("networks: [none]", "`none` is not a network name"),
        ("networks: [front]\n    network_mode: none", "remove one"),
        ("image: $IMAGE", "variables such as in `$IMAGE` are not supported"),
        ("environment: [TOKEN]", "`TOKEN` has no value"),
        ("environment: {TOKEN: }", "`TOKEN` has no value"),
        ("env_file: .env", "`x.env_file`"),
        ("ports: ['0.0.0.0:80:80']", "`0.0.0.0:80:80` is not"),
        ("ports: ['3000-3005']", "`3000-3005` is not"),
        ("volumes: ['a:/b:z']", "`a:/b:z` is not"),
        ("depends_on: {y: {condition: soon}}", "unknown condition `soon`"),
        ("healthcheck: {test: [NONE]}", "must be text, or a list"),
        ("networks: {default: {aliases: [a]}}", "settings of"),
        ("command: {a: b}", "is not a list"),
    ],
)
def test_change_that_a_plan_cannot_express_is_refused_by_its_name(service: str, words: str) -> None:
    with pytest.raises(ToolFailed) as raised:
        read_compose_file(f"services:\n  x:\n    {service}\n".encode(), "compose.yaml", "")
    assert words in str(raised.value)
