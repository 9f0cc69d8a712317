"""Saving the plan file changes running containers as `plan diff` predicts, on a real engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e import container_harness
from tests.e2e.container_harness import ContainerHarness
from tests.e2e.folder import Folder
from tests.product import Resource

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

PLAN = """\
plan: p
containers:
  keeps: {{image: "planloop-test/service:1", mounts: [{{volume: data, container: /data}}]}}
  edited:
    image: planloop-test/service:1
    env: {{NAME: {name}, TOKEN: "secret:P_TOKEN"}}
    limits: {limits}
    labels: {{team: {team}}}
    ports: {ports}
    health: {{cmd: [test, -e, /tmp/well]}}
"""
FIRST: dict[str, object] = {
    "name": "one", "limits": "{memory: 64MB}", "team": "red", "ports": "[{container: 80}]"
}  # fmt: skip
SECRET = "hush-this-is-one"


@pytest.fixture
def harness(folder: Folder, tmp_path: Path) -> Iterator[ContainerHarness]:
    with container_harness.harness(folder, container_harness.machines_address(), tmp_path) as harness:
        yield harness
        for volume in harness.api.volumes(filters=harness.selected)["Volumes"] or ():
            harness.api.remove_volume(volume["Name"])


def _write(folder: Folder, **changed: object) -> None:
    folder.write("p.plan.yaml", PLAN.format(**{**FIRST, **changed}))


def _runs(seen: Mapping[str, Resource], incarnation: int, **bounds: object) -> bool:
    edited = seen["container/edited"]
    there = edited.status.get("seen") or {}
    is_bound = all(there.get(name) == value for name, value in bounds.items())
    return edited.state == "healthy" and there.get("incarnation") == incarnation and is_bound


def _diff(folder: Folder, **changed: object) -> str:
    """Return the output of `plan diff` for the edit, made in a copy of the file."""
    folder.write("copy.yaml", PLAN.format(**{**FIRST, **changed}))
    said = folder.run("diff", "copy.yaml").out
    (folder.path / "copy.yaml").unlink()
    return said


def test_an_edit_does_what_the_preview_says(
    harness: ContainerHarness, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P_TOKEN", SECRET)
    _write(folder)
    with folder.started("--yes", "p.plan.yaml") as owner:
        owner.until("container/edited")
        harness.until_states(keeps="running", edited="healthy")
        ref, keeps = harness.ref("edited"), harness.ref("keeps")
        assert harness.said_inside("edited", "sh", "-c", 'echo "$TOKEN"') == f"{SECRET}\n"

        assert "memory: 64 MB → 32 MB; changed while it runs" in _diff(folder, limits="{memory: 32MB}")
        _write(folder, limits="{memory: 32MB}")
        harness.until(lambda seen: _runs(seen, 1, memory_bytes=32_000_000))
        assert harness.inspect("edited")["HostConfig"]["Memory"] == 32_000_000
        _write(folder, limits="{pids: 50}")
        harness.until(lambda seen: _runs(seen, 1, pids=50, memory_bytes=None))
        assert harness.ref("edited") == ref

        _write(folder, limits="{pids: 50}", team="blue")
        harness.until(lambda seen: seen["container/edited"].spec["labels"] == {"team": "blue"})
        assert harness.ref("edited") == ref
        assert harness.inspect("edited")["Config"]["Labels"]["team"] == "red"

        more = {"limits": "{pids: 50}", "team": "blue", "name": "two"}
        said = _diff(folder, **more)
        assert "replace" in said
        assert "env: NAME; stopped, removed and recreated" in said
        _write(folder, **more)
        harness.until(lambda seen: _runs(seen, 2, pids=50))
        assert harness.ref("edited") != ref
        assert harness.inspect("edited")["Config"]["Labels"]["team"] == "blue"
        assert harness.said_inside("edited", "sh", "-c", 'echo "$NAME"') == "two\n"

        text = (folder.path / "p.plan.yaml").read_text()
        (folder.path / "p.plan.yaml").write_text("".join(line for line in text.splitlines(True) if "keeps" not in line))
        harness.until(lambda seen: "container/keeps" not in seen)
        assert keeps not in {one["Id"] for one in harness.api.containers(all=True)}
        assert [one["Name"] for one in harness.api.volumes(filters=harness.selected)["Volumes"]], "its volume stays"

        _hides_the_secret(folder)
        assert folder.run("down").code == 0
        owner.ended()
        assert SECRET not in owner.text
    assert harness.left() == []


def _hides_the_secret(folder: Folder) -> None:
    """No word that can be asked for has it, and neither has any file of the plan."""
    for words in (
        ("describe", "container/edited"),
        ("get", "containers", "-o", "json"),
        ("events",),
        ("history",),
        ("diff", "p.plan.yaml"),
        ("compile", "p.plan.yaml"),
        ("compile", "--target", "compose", "p.plan.yaml"),
    ):
        assert SECRET not in folder.run(*words).text, words
    kept = [path for path in (folder.path / ".plan").rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []


def test_missing_secret_is_reported_and_picked_up_when_it_appears(harness: ContainerHarness, folder: Folder) -> None:
    secret = folder.path / ".plan" / "secrets" / "P_TOKEN"
    folder.write("p.plan.yaml", PLAN.format(**FIRST))
    with folder.started("--yes", "p.plan.yaml") as owner:
        owner.until("container/edited")
        harness.until(lambda seen: container_harness.ready(seen["container/edited"])[0] == "NoSecret")
        reason, why, cure = container_harness.ready(harness.objects()["container/edited"])
        assert "neither a variable of the environment nor the file .plan/secrets/P_TOKEN" in why, reason
        assert "create it" in cure
        secret.parent.mkdir()
        secret.write_text(f"{SECRET}\n")
        harness.until_states(edited="healthy")
        assert harness.said_inside("edited", "sh", "-c", 'echo "$TOKEN" | tee /proc/1/fd/1') == f"{SECRET}\n"
        assert folder.run("down").code == 0
        owner.ended()
    said = folder.run("logs", "container/edited").out
    assert "•••" in said
    assert SECRET not in said
    assert harness.left() == []
