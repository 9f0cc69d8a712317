"""File tools of an agent whose sandbox is a container act where its commands do, on a real engine."""

from __future__ import annotations

import anyio
import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from tests.containers import engines
from tests.e2e.folder import Folder, Said

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def _image(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> None:
    anyio.run(engines.image, engine, tmp_path_factory.mktemp("image"))


def apply(folder: Folder, steps: str, container: str = "", agent: str = "") -> Said:
    """A plan whose one agent works in the container `sut`."""
    lines = "\n".join(f"    {line}" for line in steps.strip().splitlines())
    more = f", {container}" if container else ""
    return folder.done(
        f"""\
plan: team
rights: {{tools: [all]}}
containers:
  sut: {{image: {engines.IMAGE}, cmd: [sleep, "600"]{more}}}
agent:
  sandbox: {{container: sut}}
  {agent}
  script:
{lines}
    - done: "finished"
"""
    )


def test_files_are_those_that_commands_see_and_none_is_written_unseen(folder: Folder) -> None:
    apply(
        folder,
        """\
- call: {write: {path: a/b.txt, content: "one\\ntwo\\n"}}
- expect: {ok: true}
- call: {shell: {command: "cat /w/a/b.txt && chmod 640 a/b.txt"}}
- expect: {ok: true, contains: "two"}
- call: {edit: {path: /w/a/b.txt, old: two, new: three}}
- expect: {ok: true}
- call: {shell: {command: "stat -c %a a/b.txt && cat a/b.txt && echo four >> a/b.txt"}}
- expect: {ok: true, contains: "640\\none\\nthree"}
- call: {write: {path: a/b.txt, content: "mine"}}
- expect: {error: Changed, contains: "+four"}
- call: {edit: {path: a/b.txt, old: four, new: five}}
- expect: {ok: true}
- call: {read: {path: a/b.txt, first: 2, lines: 1}}
- expect: {ok: true, contains: three, not: five}
- call: {shell: {command: "echo theirs > a/c.txt; touch a/empty; ls -A a"}}
- expect: {not: tmp}
- call: {write: {path: a/c.txt, content: mine}}
- expect: {error: NotRead}
- call: {write: {path: a/d.txt, content: ""}}
- expect: {ok: true}
- call: {dump: {path: me.json}}
- expect: {ok: true, contains: me.json}
- call: {list: {}}
- expect: {ok: true, contains: "a/b.txt  15"}
- call: {list: {path: a, glob: "e*"}}
- expect: {ok: true, contains: "empty  0", not: b.txt}
- call: {search: {text: "TH", path: /w, any_case: true, glob: "**/*.txt"}}
- expect: {ok: true, contains: "a/b.txt:2: three"}
- call: {search: {text: "$(id)", path: /w}}
- expect: {ok: true, contains: no hits}
""",
        "workdir: /w, mounts: [{container: /w, tmpfs: true}]",
    )
    assert not (folder.path / "a").exists() and (folder.path / "me.json").exists()


def test_path_that_cannot_be_a_file_gives_a_reason(folder: Folder) -> None:
    apply(
        folder,
        """\
- call: {shell: {command: "mkdir d; echo x > d/real; ln -s d way; ln -s real d/link; mkfifo p"}}
- call: {shell: {command: "yes | head -c 2000000 > big; head -c 2000000 /dev/zero > zeros"}}
- call: {read: {path: none}}
- expect: {error: NotFound, contains: "there is no file `/none` in `sut`"}
- call: {read: {path: no/none}}
- expect: {error: NotFound, contains: "no folder `/no`"}
- call: {read: {path: d}}
- expect: {error: NotAFile}
- call: {read: {path: p}}
- expect: {error: NotAFile}
- call: {read: {path: big}}
- expect: {error: TooLarge, contains: "2000000"}
- call: {read: {path: zeros}}
- expect: {error: Binary, contains: "1.9 MiB"}
- call: {read: {path: way/real}}
- expect: {error: BadPath, contains: "/d/real"}
- call: {write: {path: way/new/x, content: x}}
- expect: {error: BadPath, contains: "/d/new/x"}
- call: {write: {path: d/link, content: x}}
- expect: {error: BadPath, contains: "/d/real"}
- call: {list: {path: way}}
- expect: {error: BadPath}
- call: {write: {path: d, content: x}}
- expect: {error: NotAFile}
- call: {write: {path: d/real/x, content: x}}
- expect: {error: NotFound}
- call: {write: {path: /proc/x, content: x}}
- expect: {error: NotWritable}
- call: {shell: {command: "test ! -e d/new && cat d/real"}}
- expect: {ok: true, contains: x}
- call: {list: {path: /}}
- expect: {ok: true, contains: "d/real  2", not: proc/}
""",
    )


def test_mounted_file_of_the_plan_has_the_rights_and_the_lock_of_its_host_file(folder: Folder) -> None:
    (folder.path / "fixed").mkdir()
    (folder.path / "fixed/a.txt").write_text("fixed\n")
    apply(
        folder,
        """\
- call: {write: {path: /at/src/a.txt, content: "one\\n"}}
- expect: {ok: true, contains: "`src/a.txt`"}
- call: {shell: {command: "pwd; cat src/a.txt; echo own > /at/cache/x"}}
- expect: {ok: true, contains: "/at\\none"}
- call: {read: {path: src/a.txt}}
- expect: {ok: true, contains: one}
- call: {read: {path: cache/x}}
- expect: {ok: true, contains: own}
- call: {write: {path: cache/y, content: "in memory"}}
- expect: {ok: true, contains: "container/sut:/at/cache/y"}
- call: {write: {path: task.yaml, content: "plan: other"}}
- expect: {ok: false, contains: "the plan file"}
- call: {read: {path: .plan/team/log.db}}
- expect: {ok: false, contains: ".plan cannot be read"}
- call: {read: {path: /fixed/a.txt}}
- expect: {ok: true, contains: fixed}
- call: {write: {path: /fixed/a.txt, content: x}}
- expect: {ok: false, contains: mounted read-only}
- call: {write: {path: /tmp/no, content: x}}
- expect: {ok: false, contains: "rights allow"}
- call: {lock: {paths: [src/a.txt, cache/z]}}
- expect: {ok: true, contains: "cache/z"}
""",
        "mounts: [{host: ., container: /at}, {host: fixed, container: /fixed, read-only: true},"
        " {container: /at/cache, tmpfs: true}]",
        'rights: {write: ["src/**", "fixed/**", "task.yaml", "container/sut:/at/**"]}',
    )
    assert (folder.path / "src/a.txt").read_text() == "one\n"
    assert not (folder.path / "cache/y").exists()
    told = str(folder.records())
    assert all(f"'lock/{path}'" in told for path in ("src/a.txt", "container/sut:/at/cache/y"))


def test_file_that_commands_may_not_write_is_not_writable_by_tools(folder: Folder) -> None:
    apply(
        folder,
        """\
- call: {write: {path: /etc/new, content: x}}
- expect: {error: NotWritable}
- call: {read: {path: /etc/passwd}}
- expect: {ok: true, contains: appuser}
- call: {write: {path: /etc/passwd, content: x}}
- expect: {error: NotWritable}
- call: {write: {path: /tmp/new, content: x}}
- expect: {ok: true}
- call: {read: {path: /var/lib/secret}}
- expect: {ok: false, contains: denied}
""",
        'user: "1000"',
        "rights: {deny: ['read(var/lib/**)']}",
    )


def test_command_inside_that_changes_a_file_locked_by_another_is_reported(folder: Folder) -> None:
    (folder.path / "src").mkdir()
    folder.done(
        f"""\
plan: team
rights: {{tools: [all]}}
containers:
  sut: {{image: {engines.IMAGE}, cmd: [sleep, "600"], mounts: [{{host: src, container: /src}}]}}
tasks:
  holds:
    agent:
      script:
        - call: {{lock: {{paths: [src/a.txt]}}}}
        - call: {{write: {{path: src/held, content: x}}}}
        - when: {{message: changed under your lock}}
          done: "told"
  writes:
    containers: [sut]
    agent:
      tools: [lib:containers]
      script:
        - call: {{container_exec: {{name: sut, command: "until test -e /src/held; do sleep 0.1; done"}}}}
        - call: {{container_exec: {{name: sut, command: "echo mine > /src/a.txt"}}}}
        - expect: {{contains: "`src/a.txt`, locked by agent/holds"}}
        - done: "told"
"""
    )


def test_a_file_in_a_volume_has_one_lock_in_all_containers(folder: Folder) -> None:
    mounted = f"{{image: {engines.IMAGE}, cmd: [sleep, '600'], mounts: [{{volume: data, container"
    folder.done(
        f"""\
plan: team
rights: {{tools: [all]}}
containers:
  one: {mounted}: /d}}]}}
  two: {mounted}: /e}}]}}
tasks:
  holds:
    containers: [one, two]
    agent:
      sandbox: {{container: one}}
      script:
        - call: {{lock: {{paths: [/d/f]}}}}
        - expect: {{ok: true, contains: "volume/data:/f"}}
        - call: {{shell: {{command: "touch /d/held; until test -e /d/over; do sleep 0.1; done; test ! -e /d/f"}}}}
        - expect: {{ok: true}}
        - done: "held"
  writes:
    containers: [one, two]
    agent:
      sandbox: {{container: two}}
      script:
        - call: {{shell: {{command: "until test -e /e/held; do sleep 0.1; done"}}}}
        - call: {{lock: {{paths: [/e/f], wait_s: 0}}}}
        - expect: {{ok: false}}
        - call: {{shell: {{command: "touch /e/over"}}}}
        - call: {{write: {{path: /e/f, content: "later"}}}}
        - expect: {{ok: true}}
        - done: "wrote"
"""
    )
    assert folder.run("down", "--volumes").code == 0
