"""An agent that creates links in its folder cannot make agents below it work outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controllers.agent.arena import Arena, arena
from tests.golden_text import said
from tests.product import JsonObject

pytestmark = pytest.mark.anyio

MAKER = """
    tasks:
      t:
        cwd: work
        agent:
          script:
            - call: {shell: {command: "LINE"}}
            - {when: {result: {ok: true}}, task: CHILD}
            - expect: {ok: false}
            - done: x
"""
OUT = "ln -s .. out"


async def made(here: Arena, line: str, child: str) -> JsonObject:
    """The message to the parent about its child after all tasks have ended."""
    await here.apply(MAKER.replace("LINE", line).replace("CHILD", child))
    await here.until_state("task/t", "done", "failed")
    (result,) = await here.results("task")
    return result


def reason(here: Arena, task: str) -> str:
    return str(here.get(task).status["conditions"]["Ready"]["reason"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("zebra")
    return tmp_path


@pytest.mark.parametrize("cwd", ["work/out", "work/out/other", "work/out/new"])
async def test_an_agent_whose_folder_is_a_link_out_of_its_makers_never_begins(folder: Path, cwd: str) -> None:
    async with arena(folder) as here:
        script = "[{call: {read: {path: secret.txt}}}, {done: x}]"
        told = await made(here, OUT, f"{{id: c, goal: g, wait: true, cwd: {cwd}, script: {script}}}")

        assert here.state("task/t/c") == "failed" and reason(here, "task/t/c") == "FolderLeadsOut"
        said(told["text"], "work", "agent/t")
        assert "remove the link" in here.get("task/t/c").status["conditions"]["Ready"]["unblocks"][0]
        assert "agent.woken" not in await here.types("agent/t/c") and await here.results("read") == []
        assert here.state("task/t") == "failed"  # Its child failed.
        await here.settled()


async def test_command_of_a_descendant_gets_its_missing_folder_but_none_outside(
    folder: Path,
) -> None:
    async with arena(folder) as here:
        await made(here, "true", "{id: c, wait: true, cwd: work/new/deep, run: 'pwd > here'}")
        assert (
            here.state("task/t/c") == "done" and here.read("work/new/deep/here") == str(folder / "work/new/deep") + "\n"
        )
    async with arena(folder / "work") as here:
        await here.apply(
            MAKER.replace("cwd: work", "cwd: in")
            .replace("LINE", "ln -s ../.. out")
            .replace("CHILD", "{id: c, wait: true, cwd: in/out/made, run: 'true'}")
        )
        await here.until_state("task/t", "done", "failed")
        assert here.state("task/t/c") == "failed" and not (folder / "made").exists()


async def test_a_link_that_stays_in_the_makers_folder_is_worked_behind(folder: Path) -> None:
    (folder / "work/sub").mkdir()
    async with arena(folder) as here:
        script = "[{call: {write: {path: made.txt, content: x}}}, {done: x}]"
        await here.apply(
            MAKER.replace("LINE", "ln -s sub in")
            .replace("CHILD", f"{{id: c, goal: g, wait: true, cwd: work/in, script: {script}}}")
            .replace("ok: false", "ok: true")
        )
        await here.until_state("task/t", "done", "failed")

        assert here.state("task/t") == "done" and (folder / "work/sub/made.txt").exists()


async def test_no_command_or_check_of_a_task_runs_behind_a_link_out(folder: Path) -> None:
    async with arena(folder) as here:
        run = "run: touch ran, acceptance: [{require-file: secret.txt}, {sh: touch checked}]"
        await made(here, OUT, f"{{id: c, goal: g, wait: true, cwd: work/out, {run}}}")

        assert here.state("task/t/c") == "failed" and reason(here, "task/t/c") == "FolderLeadsOut"
        assert not list(folder.rglob("ran")) and not list(folder.rglob("checked"))
        await here.settled()


async def test_no_check_before_the_work_runs_behind_a_link_out(folder: Path) -> None:
    (folder / "work/sub").symlink_to("..")
    async with arena(folder) as here:
        await here.apply("""
            agent: {script: [{done: x}]}
            tasks:
              t:
                cwd: work
                agent: {script: [{done: x}]}
                tasks:
                  c: {run: "true", cwd: work/sub, when: before, acceptance: [{sh: touch checked}], retries: 1}
                  g:
                    cwd: work/sub
                    acceptance: [{require-file: secret.txt}]
                    tasks: {h: {run: "true", cwd: work}}
        """)
        await here.until_state("task/.", "done", "failed")

        assert not list(folder.rglob("checked"))
        assert [reason(here, f"task/t/{name}") for name in ("c", "g")] == ["FolderLeadsOut", "ChecksFailing"]
        assert here.get("task/t/c").status["attempt"] == 2
        said(here.get("task/t/g").status["why"])
        await here.settled()


SWAPPED = """
    tasks:
      t:
        cwd: work
        agent: {script: [{done: x}]}
        tasks:
          c:
            cwd: work/sub
            agent:
              script:
                - call: {shell: {command: "cd .. && mv sub away && ln -s .. sub"}}
                - call: {read: {path: secret.txt}}
                - expect: {ok: false}
                - call: {shell: {command: "touch ran"}}
                - expect: {ok: false}
                - call: {write: {path: wrote, content: x}}
                - expect: {ok: false}
                - call: {lock: {paths: [secret.txt]}}
                - expect: {ok: false}
                - call: {dump: {path: dumped}}
                - expect: {ok: false}
                - task: {id: own, goal: g, cwd: work/sub, wait: true, run: touch ran}
                - expect: {ok: false}
                - call: {terminate: {name: own}}
                - call: {plan_view: {}}
                - END
"""


@pytest.mark.parametrize(("end", "state"), [("done: x", "done"), ("fail: led away", "failed")])
async def test_agent_whose_folder_leads_out_during_work_can_only_end(folder: Path, end: str, state: str) -> None:
    (folder / "work/sub").mkdir()
    async with arena(folder) as here:
        await here.apply(SWAPPED.replace("END", end))
        await here.until_state("task/t/c", "done", "failed")
        await here.until(lambda: here.state("task/t") in ("done", "failed"))

        assert here.state("task/t/c") == state
        assert not [path for name in ("ran", "wrote", "dumped") for path in folder.rglob(name)]
        found = {
            tool: (await here.results(tool))[-1] for tool in ("read", "shell", "write", "lock", "dump", "plan_view")
        }
        assert {tool: one["state"] for tool, one in found.items()} == {
            **dict.fromkeys(("read", "shell", "write", "lock", "dump"), "Denied"),
            "plan_view": "Succeeded",
        }
        said(found["read"]["text"], "agent/t")
        await here.settled()


async def test_checks_report_why_they_do_not_run_when_their_folder_leads_out(folder: Path) -> None:
    (folder / "work/sub").mkdir()
    async with arena(folder) as here:
        await here.apply("""
            tasks:
              t:
                cwd: work
                agent: {script: [{done: x}]}
                tasks:
                  c:
                    cwd: work/sub
                    run: cd .. && mv sub away && ln -s .. sub
                    acceptance: [{require-file: secret.txt}]
        """)
        await here.until_state("task/.", "done", "failed")

        assert here.state("task/t/c") == "failed"
        said(here.get("task/t/c").status["why"], "work/sub")


async def test_task_whose_folder_led_out_starts_once_the_link_is_gone_and_it_resumes(folder: Path) -> None:
    (folder / "work/sub").symlink_to("..")
    async with arena(folder) as here:
        await here.apply("""
            tasks:
              t:
                cwd: work
                agent: {script: [{done: x}]}
                tasks: {c: {run: touch ran, cwd: work/sub}}
        """)
        await here.until_state("task/t/c", "failed")
        (folder / "work/sub").unlink()
        (folder / "work/sub").mkdir()
        await here.patch({"op": "add", "path": "/tasks/t/tasks/c/again", "value": 1})
        await here.until_state("task/t/c", "done")

        assert (folder / "work/sub/ran").exists()


@pytest.mark.parametrize("cwd", [".plan", ".plan/arena", "way"])
async def test_plan_state_is_never_an_agents_folder(folder: Path, cwd: str) -> None:
    (folder / "way").symlink_to(".plan")
    async with arena(folder) as here:
        await here.apply(f"""
            agent:
              script:
                - task:
                    id: c
                    goal: g
                    wait: true
                    cwd: {cwd}
                    script: [{{call: {{shell: {{command: touch ran}}}}}}, {{done: x}}]
                - done: x
        """)
        await here.until_state("task/c", "done", "failed")

        assert here.state("task/c") == "failed" and reason(here, "task/c") == "FolderLeadsOut"
        assert not list(folder.rglob("ran"))


async def test_agent_does_not_work_where_a_sibling_moved_its_folder(folder: Path) -> None:
    (folder / "work/sub").mkdir()
    async with arena(folder) as here:
        await here.apply("""
            tasks:
              x: {cwd: work, agent: {script: [{call: {shell: {command: "mv sub away && ln -s .. sub"}}}, {done: x}]}}
              y: {cwd: work/sub, needs: [x], agent: {script: [{call: {shell: {command: touch ran}}}, {done: x}]}}
        """)
        await here.until_state("task/y", "done", "failed")

        assert here.state("task/y") == "failed" and reason(here, "task/y") == "FolderLeadsOut"
        assert not list(folder.rglob("ran"))


async def test_command_without_an_agent_is_not_redirected_either(folder: Path) -> None:
    (folder / "way").symlink_to("/")
    async with arena(folder) as here:
        await here.apply("""
            tasks:
              x: {cwd: work, agent: {script: [{call: {shell: {command: "ln -s .. app"}}}, {done: x}]}}
              y: {cwd: work/app, needs: [x], run: touch ran}
              z: {cwd: way, needs: [x], run: pwd}
        """)
        await here.until_state("task/y", "done", "failed")
        await here.until_state("task/z", "done", "failed")

        assert here.state("task/y") == "failed" and reason(here, "task/y") == "FolderLeadsOut"
        assert not list(folder.rglob("ran"))
        assert here.state("task/z") == "done"  # A person's link leads wherever they want.
