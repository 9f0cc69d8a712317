"""Agents that make containers and work in them, with `plan apply` on a real engine."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import anyio
import docker
import pytest

from planloop.client import process
from planloop.client.plan_paths import PlanPaths, plan_label
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import engine_address
from planloop.containers.engine.names import ContainerNames
from tests import golden_text
from tests.containers import engines
from tests.e2e import command
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

IMAGE = engines.IMAGE
TOOLS = "lib:containers, lib:code, plan_patch"
FOREVER = "cmd: [sh, -c, 'echo up; exec sleep 600']"


@pytest.fixture(autouse=True)
def _image(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> None:
    anyio.run(engines.image, engine, tmp_path_factory.mktemp("image"))


def left(folder: Folder, name: str) -> list[str]:
    """What is in the engine of the plan `name`, stopped containers and networks too."""

    async def look() -> list[str]:
        real = DockerEngine(process.environment())
        ours = ContainerNames(name, plan_label(PlanPaths(name, folder.path / ".plan" / name))).ours
        return [one.name for one in await real.containers(ours)] + list(await real.networks(ours))

    return anyio.run(look)


def apply(folder: Folder, steps: str, head: str = "", rights: str = "", network: str = "none") -> Any:
    """Runs a plan whose one agent takes the steps."""
    lines = "\n".join(f"        {line}" for line in steps.strip().splitlines())
    folder.write(
        "task.yaml",
        f"""\
plan: team
rights: {{tools: [all], network: {network}}}
{head}
tasks:
  build:
    goal: use a container
    agent:
      tools: [{TOOLS}]
      rights: {{{rights}}}
      script:
{lines}
""",
    )
    return folder.run("apply", "--yes", "task.yaml")


def test_an_agent_makes_a_container_works_in_it_and_it_goes_with_its_task(folder: Folder) -> None:
    (folder.path / "src").mkdir()

    said = apply(
        folder,
        f"""
- call: {{container: {{name: sut, image: {IMAGE}, ports: [80],
                      cmd: [sh, -c, "echo hello; touch /tmp/up; exec sleep 600"],
                      mounts: {{src: /work}}, workdir: /work, health: {{cmd: [test, -e, /tmp/up]}}}}}}
- expect: {{ok: true, contains: "`sut` is healthy"}}
- expect: {{contains: "hello"}}
- call: {{container_exec: {{name: sut, command: "pwd; echo made > made; exit 3"}}}}
- expect: {{exit: 3, contains: "/work"}}
- call: {{container_exec: {{name: sut, command: "setsid sleep 777 & sleep 778", timeout_s: 1}}}}
- expect: {{error: TimedOut}}
- call: {{container_exec: {{name: sut, command: "ps"}}}}
- expect: {{ok: true, not: "sleep 77"}}
- call: {{container_exec: {{name: sut, command: no-such-program}}}}
- expect: {{exit: 127}}
- call: {{container_exec: {{name: nobody, command: "true"}}}}
- expect: {{error: NotFound}}
- call: {{container_logs: {{name: sut}}}}
- expect: {{ok: true, contains: "hello"}}
- call: {{container: {{name: sut, image: {IMAGE}, cmd: [sh, -c, "echo other; touch /tmp/up; exec sleep 600"],
                      health: {{cmd: [test, -e, /tmp/up]}}}}}}
- expect: {{ok: true, contains: "healthy"}}
- expect: {{contains: "other", not: hello}}
- call: {{container_stop: {{name: sut}}}}
- expect: {{ok: true, contains: "`sut` is stopped", not: healthy}}
- call: {{container: {{name: again, image: {IMAGE}, cmd: [sleep, "600"]}}}}
- done: "finished"
""",
    )

    assert said.code == 0, said.text
    assert (folder.path / "src/made").read_text() == "made\n"
    assert folder.run("replay", "--tree").code == 0
    assert left(folder, "team") == []


def test_container_that_does_not_come_up_gives_a_reason(folder: Folder) -> None:
    # Without a check of its health it is up for the moment that it runs.
    said = apply(
        folder,
        f"""
- call: {{container: {{name: broken, image: {IMAGE}, cmd: [sh, -c, "echo no config; exit 4"],
                      health: {{cmd: [test, -e, /tmp/up]}}}}}}
- expect: {{ok: false, contains: "exit code 4"}}
- expect: {{contains: "no config"}}
- call: {{container: {{name: other, image: planloop/no-such-image}}}}
- expect: {{ok: false, contains: "no-such-image"}}
- done: "told"
""",
    )

    assert said.code == 0, said.text
    assert left(folder, "team") == []


def test_forbidden_container_field_of_an_agent_is_refused_by_name(folder: Folder) -> None:
    (folder.path / "away").symlink_to("/etc")

    said = apply(
        folder,
        f"""
- call: {{container: {{name: a, image: {IMAGE}, mounts: {{/etc: /e}}}}}}
- expect: {{error: Refused, contains: "`/etc` is outside your workspace"}}
- call: {{container: {{name: a, image: {IMAGE}, mounts: {{away: /e}}}}}}
- expect: {{ok: false, contains: "is a link to /etc"}}
- call: {{container_stop: {{name: a}}}}
- call: {{container: {{name: a, image: {IMAGE}, ports: [{{container: 80, host: 18124}}]}}}}
- expect: {{error: Refused, contains: "your rights do not allow port 18124 of this machine"}}
- call: {{container: {{name: a, image: {IMAGE}, networks: [default]}}}}
- expect: {{error: Refused, contains: "you may not use the network"}}
- call: {{container: {{name: a, image: {IMAGE}, env: {{TOKEN: "env:HOME"}}}}}}
- expect: {{error: Refused, contains: "only people may pass on values of the owner"}}
- call: {{container: {{name: a, image: {IMAGE}, more: {{cap-add: [NET_ADMIN]}}}}}}
- expect: {{error: Refused, contains: "capabilities"}}
- call: {{plan_patch: {{ops: [{{op: add, path: /containers/theirs/env, value: {{A: "1"}}}}]}}}}
- expect: {{error: Refused, contains: "only people may change it"}}
- call: {{container_stop: {{name: theirs}}}}
- expect: {{error: Refused, contains: "only people may change it"}}
- call: {{container_exec: {{name: theirs, command: "touch /plan/task.yaml; ls -A /plan/.plan"}}}}
- expect: {{contains: "Read-only file system", not: team}}
- done: "kept out"
""",
        head=f"containers:\n  theirs: {{image: {IMAGE}, {FOREVER}, mounts: {{.: /plan}}}}",
    )

    assert said.code == 0, said.text


def test_image_built_by_an_agent_is_of_its_workspace_without_marks_of_the_plan(folder: Folder) -> None:
    label = plan_label(PlanPaths("team", folder.path / ".plan" / "team"))
    (folder.path / "away").symlink_to("/etc")
    (folder.path / "own").mkdir()
    (folder.path / "own/Dockerfile").write_text(f"FROM {IMAGE}\nLABEL {engines.LABEL}={label}\n")

    said = apply(
        folder,
        """
- call: {container: {name: a, more: {build: away}, cmd: "true"}}
- expect: {ok: false, contains: "is a link to /etc"}
- call: {container_stop: {name: a}}
- call: {container: {name: a, more: {rootfs: away/hostname}, cmd: "true"}}
- expect: {ok: false, contains: "is a link to /etc/hostname"}
- call: {container_stop: {name: a}}
- call: {container: {name: b, more: {build: own}, cmd: [sleep, "600"]}}
- expect: {ok: true}
- done: "built"
""",
        network="all",
    )

    with closing(docker.APIClient(engine_address(process.environment()), version="auto")) as api:
        built = [one["Id"] for one in api.images(filters={"label": f"{engines.LABEL}={label}"})]
        marked = api.images(filters={"label": f"planloop.plan={label}"})
        for image in built:
            api.remove_image(image)
    assert said.code == 0, said.text
    assert (len(built), marked) == (1, [])


def test_compose_file_of_the_workspace_starts(folder: Folder) -> None:
    (folder.path / "docker-compose.yml").write_text(
        f"""\
services:
  db:
    image: {IMAGE}
    command: sh -c "touch /tmp/ready; exec sleep 600"
    environment: [MODE=test]
    healthcheck: {{test: [CMD, test, -f, /tmp/ready], interval: 200ms, retries: 20}}
  app:
    image: {IMAGE}
    command: ["sh", "-c", "cat /data/hello; touch /tmp/ready; exec sleep 600"]
    healthcheck: {{test: [CMD, test, -f, /tmp/ready], interval: 200ms, retries: 20}}
    volumes: ["./data:/data:ro"]
    depends_on: {{db: {{condition: service_healthy}}}}
"""
    )
    (folder.path / "data").mkdir()
    (folder.path / "data/hello").write_text("read\n")
    (folder.path / "other.yml").write_text(f"services: {{x: {{image: {IMAGE}, privileged: true}}}}\n")

    said = apply(
        folder,
        """
- call: {compose_up: {file: docker-compose.yml}}
- expect: {ok: true, contains: "`db` is healthy"}
- expect: {contains: "`app` is healthy"}
- call: {container_exec: {name: db, command: "echo $MODE"}}
- expect: {ok: true, contains: test}
- call: {container_logs: {name: app}}
- expect: {ok: true, contains: read}
- call: {compose_up: {file: other.yml}}
- expect: {error: BadCompose, contains: "x.privileged"}
- done: "up"
""",
    )

    assert said.code == 0, said.text
    assert left(folder, "team") == []


def test_rights_bound_commands_inside_and_the_number_of_containers(folder: Folder) -> None:
    said = apply(
        folder,
        f"""
- call: {{container_exec: {{name: sut, command: "echo one"}}}}
- expect: {{ok: true}}
- call: {{container_exec: {{name: sut, command: "ls /"}}}}
- expect: {{ok: false, contains: container_exec}}
- call: {{container_exec: {{name: sut, command: "echo one; ls"}}}}
- expect: {{ok: false}}
- call: {{container: {{name: a, image: {IMAGE}, cmd: [sleep, "600"]}}}}
- expect: {{ok: true}}
- call: {{container: {{name: b, image: {IMAGE}, cmd: [sleep, "600"]}}}}
- expect: {{error: Refused, contains: "its rights allow 1"}}
- done: "bounded"
""",
        head=f"containers:\n  sut: {{image: {IMAGE}, {FOREVER}}}",
        rights="containers: 1, deny: ['container_exec(*: ls *)']",
    )

    assert said.code == 0, said.text


def test_a_command_inside_outlives_its_owner_and_the_next_one_reads_how_it_ended(folder: Folder) -> None:
    """It waits at a pipe until the test writes to it."""
    (folder.path / "src").mkdir()
    begun, on = folder.path / "src/begun", folder.path / "src/on"
    os.mkfifo(begun)
    os.mkfifo(on)
    lines = f"""\
plan: team
rights: {{tools: [all]}}
tasks:
  build:
    goal: use a container
    agent:
      tools: [lib:containers]
      script:
        - call: {{container: {{name: sut, image: {IMAGE}, cmd: [sleep, "600"], mounts: {{src: /src}}}}}}
        - call: {{container_exec: {{name: sut,
                  command: "echo $$ > /src/begun; read on < /src/on; echo was $$ $on; exit 3"}}}}
        - expect: {{exit: 3, contains: "well"}}
        - done: "seen"
"""
    folder.write("task.yaml", lines)
    with folder.killed("--yes", "task.yaml"):
        number = begun.read_text().strip()
    with folder.started("--yes", "task.yaml") as owner:
        on.write_text("well\n")
        assert owner.ended() == 0, owner.text
    assert f"was {number} well" in folder.run("logs", "agent/build").text
    assert left(folder, "team") == []


def test_an_agent_that_stays_with_a_container_is_talked_with_by_its_name(folder: Folder) -> None:
    folder.write(
        "task.yaml",
        f"""\
plan: team
rights: {{tools: [all]}}
containers:
  sut: {{image: {IMAGE}, {FOREVER}, task: debug}}
tasks:
  debug:
    goal: stay
    containers: [sut]
    agent:
      tools: [lib:containers]
      script:
        - call: {{container_exec: {{name: sut, command: "echo inside"}}}}
        - expect: {{ok: true, contains: inside}}
        - when: {{message: how}}
          say: it is well
        - when: {{message: break}}
          call: {{container_exec: {{name: sut, command: "kill -USR1 1"}}}}
        - expect: {{}}
        - when: {{message: goodbye}}
          done: "ended"
""",
    )
    assert folder.run("apply", "--yes", "--detach", "task.yaml").code == 0
    try:
        said = command.run("chat", "container/sut", cwd=folder.path, input="how is it?\n", timeout_s=60)
        assert (said.returncode, said.stdout) == (0, "it is well\n")
        assert folder.run("chat", "container/none").code == 6
        folder.run("send", "debug", "now break it")
        assert folder.run("wait", "container/sut", "--for", "condition=Ready=False", "--timeout", "30s").code == 0
        over = folder.run("chat", "container/sut").text
        assert "the conversation ends" in over
        golden_text.said_in(over, "container/sut")
        while "container failed" not in folder.run("logs", "agent/debug").text:
            pass  # The message reaches its agent a moment later; the test's timeout is the limit.
    finally:
        assert folder.run("down").code == 0
    assert left(folder, "team") == []


def test_volume_data_of_an_agent_is_unreadable_by_another(folder: Folder) -> None:
    held = "mounts: [{volume: held, container: /held}]"
    agent = f"tools: [{TOOLS}]"
    writes = "cmd: [sh, -c, 'echo mine > /held/x; exec sleep 600']"
    folder.done(
        f"""\
plan: team
rights: {{tools: [all], network: none}}
tasks:
  one:
    goal: leave something
    agent:
      {agent}
      script:
        - call: {{container: {{name: first, image: {IMAGE}, {writes}, {held}}}}}
        - expect: {{ok: true}}
        - call: {{container_stop: {{name: first}}}}
        - call: {{container: {{name: again, image: {IMAGE}, {FOREVER}, {held}}}}}
        - call: {{container_exec: {{name: again, command: cat /held/x}}}}
        - expect: {{ok: true, contains: mine}}
        - call: {{container_stop: {{name: again}}}}
        - done: left
  two:
    goal: look for it
    needs: [one]
    agent:
      {agent}
      script:
        - call: {{container: {{name: second, image: {IMAGE}, {FOREVER}, {held}}}}}
        - expect: {{ok: false, contains: "`held` holds data of another agent"}}
        - expect: {{contains: use another name}}
        - done: looked
"""
    )
    down = folder.run("down", "--volumes")
    assert (down.code, left(folder, "team")) == (0, []), down.text


def test_the_container_of_a_task_in_a_fork_mounts_the_fork(folder: Folder) -> None:
    folder.done(
        f"""\
plan: team
rights: {{tools: [all]}}
containers:
  sut: {{image: {IMAGE}, {FOREVER}, task: build, mounts: {{.: /work}}}}
tasks:
  build:
    goal: build in a tree of its own
    fork: true
    agent:
      sandbox: {{container: sut}}
      script:
        - call: {{shell: {{command: "pwd; test -f .git && echo in the fork > made"}}}}
        - expect: {{ok: true, contains: /work}}
        - done: built
    acceptance: [{{sh: "test -s made"}}]
"""
    )
    assert (folder.path / "made").read_text() == "in the fork\n"
    assert left(folder, "team") == []
