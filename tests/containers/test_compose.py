"""The Compose file of a plan's containers."""

from __future__ import annotations

import shlex

import yaml

from planloop.compiler.lower.containers import lower_container
from planloop.containers.compose.compose_file import compose_file, unsupported_in_compose
from planloop.schemas.limits import CONTAINER_PIDS_DEFAULT
from tests.golden_text import said
from tests.product import JsonObject

SEED: JsonObject = {
    "sut": {
        "image": "node:20",
        "workdir": "/work",
        "mounts": [{"host": ".", "container": "/work"}],
        "cmd": ["bash", "-lc", "npm test"],
        "env": {"CI": "1"},
    },
    "redis": {
        "image": "redis:7",
        "ports": [{"container": 6379, "host": 6379}],
        "health": {"cmd": ["redis-cli", "ping"]},
    },
}


def _made(containers: JsonObject) -> JsonObject:
    return compose_file({name: lower_container(written, containers) for name, written in containers.items()})


def test_the_containers_of_the_source_documents() -> None:
    services = _made(SEED)["services"]
    assert services["sut"] | {"image": "node:20"} == services["sut"]
    assert services["sut"]["command"] == ["bash", "-lc", "npm test"]
    assert services["sut"]["volumes"] == [{"type": "bind", "source": ".", "target": "/work"}]
    assert services["sut"]["environment"] == {"CI": "1"}
    assert services["redis"]["ports"] == ["127.0.0.1:6379:6379"]
    assert services["redis"]["healthcheck"]["test"] == ["CMD", "redis-cli", "ping"]
    assert {one["restart"] for one in services.values()} == {"no"}
    assert {one["pids_limit"] for one in services.values()} == {CONTAINER_PIDS_DEFAULT}


def test_needs_become_conditions_and_a_list_of_them_uses_health_if_there_is_one() -> None:
    made = _made({**SEED, "plain": {"image": "x"}, "a": {"image": "x", "needs": ["redis", "plain"]}})
    wanted = {"redis": {"condition": "service_healthy"}, "plain": {"condition": "service_started"}}
    assert made["services"]["a"]["depends_on"] == wanted


def test_common_parts_of_services_are_declared_once_at_the_top() -> None:
    mounts = [{"volume": "data", "container": "/d"}, {"tmpfs": True, "container": "/tmp"}]
    one: JsonObject = {"image": "x", "networks": ["internal", "front", "default"], "mounts": mounts}
    made = _made({"a": one, "b": one})
    assert made["networks"] == {"internal": {"internal": True}, "front": {}}
    assert made["volumes"] == {"data": {}}


def test_disabled_network_is_a_mode() -> None:
    made = _made({"a": {"image": "x", "networks": ["none"]}})
    assert made["services"]["a"]["network_mode"] == "none"
    assert "networks" not in made | made["services"]["a"]


def test_dollar_is_doubled_for_compose_and_a_secret_becomes_a_variable() -> None:
    env = {"A": "$HOME", "B": "secret:TOKEN", "C": "env:USER", "D": "file:key", "E": "secret:my.token"}
    written: JsonObject = {"image": "x", "env": env, "cmd": ["echo", "$A"]}
    service = _made({"a": written})["services"]["a"]
    assert service["environment"] == {"A": "$$HOME", "B": "${TOKEN:?}", "C": "${USER:?}"}
    told = unsupported_in_compose({"a": lower_container(written, {})})
    assert "file:key" in told[0]
    assert "secret:my.token" in told[1]
    assert service["command"] == ["echo", "$$A"]


def test_dollar_is_never_a_variable() -> None:
    written: JsonObject = {
        "build": {"folder": "a$b", "args": {"PRICE": "$5"}},
        "entrypoint": ["$a"],
        "workdir": "/$w",
        "user": "$u",
        "mounts": [{"host": "$h", "container": "/$m"}],
        "labels": {"l": "$v"},
        "health": {"cmd": ["test", "$x"]},
    }
    service = _made({"a": written})["services"]["a"]
    assert service["build"] == {"context": "./a$$b", "args": {"PRICE": "$$5"}}
    assert [service[name] for name in ("entrypoint", "working_dir", "user")] == [["$$a"], "/$$w", "$$u"]
    assert service["volumes"] == [{"type": "bind", "source": "./$$h", "target": "/$$m"}]
    assert (service["labels"], service["healthcheck"]["test"]) == ({"l": "$$v"}, ["CMD", "test", "$$x"])
    assert _made({"a": {"image": "x$y"}})["services"]["a"]["image"] == "x$$y"


def test_probed_address_is_one_word_for_the_shell() -> None:
    service = _made({"a": {"image": "x", "health": {"http": ":80/';touch${IFS}x;'"}}})["services"]["a"]
    (line,) = service["healthcheck"]["test"][1:]
    words = shlex.split(line.replace("$$", "$"))
    assert words[-1] == words[4] == "http://127.0.0.1:80/';touch${IFS}x;'"


def test_what_compose_cannot_express_is_reported() -> None:
    written: JsonObject = {"rootfs": "root.tar", "keep": "always", "ttl": 60, "task": "t"}
    told = unsupported_in_compose({"a": lower_container(written, {})})
    assert [sentence.partition(":")[0] for sentence in told] == ["`a`"] * 4
    assert _made({"a": written})["services"]["a"]["image"] == "a:rootfs"
    (told_of_mount,) = unsupported_in_compose({"a": lower_container({"image": "x", "mounts": {".": "/work"}}, {})})
    said(told_of_mount, ".git")


def test_output_is_plain_yaml() -> None:
    made = _made(SEED)
    assert yaml.safe_load(yaml.safe_dump(made)) == made
