"""Law 6: what an agent's patch lets others run, read, lock and ask is what its author may, in the real language."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from planloop.client.plan_sources import FolderSources
from planloop.compiler import merge, plan_compiler
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.schemas import limits
from planloop.schemas.spec import tables
from planloop.server import reference_check
from tests.golden_text import said
from tests.product import Json, JsonObject, PatchOp, PatchRefused
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

SCRIPT: JsonObject = {"script": [{"done": True}]}


def real(folder: Path) -> AbstractAsyncContextManager[Plan]:
    """A plan in the language that people write."""
    sources = FolderSources(folder)
    check = partial(plan_compiler.check_document, sources=sources)
    check_by = partial(reference_check.check_as_author, folder=folder)
    return opened(folder, PlanLanguage(check, merge.merge_documents, tables.change_class, check_by=check_by))


async def by(plan: Plan, who: str, *ops: PatchOp) -> list[str]:
    """The grounds on which the patch was refused, none when it was not."""
    verdict = await plan.patch(*ops, by=agent(who))
    return sorted({fault.rule for fault in verdict.faults}) if isinstance(verdict, PatchRefused) else []


@pytest.mark.parametrize("path", ["/tasks/b/tasks/n/cwd", "/tasks/b/tasks/n/env"])
async def test_command_elsewhere_or_with_another_environment_is_another_command(tmp_path: Path, path: str) -> None:
    below: JsonObject = {"n": {"run": "make", "cwd": "b"}}
    reader: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "plan_patch"]}}
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"b": {"goal": "g", "agent": reader, "cwd": "b", "tasks": below}}})
        value: Json = "b/mine" if path.endswith("cwd") else {"MAKEFILES": "b/mine"}
        await plan.patch(op("remove", "/tasks/b/tasks/n/cwd"))
        assert "rights" in await by(plan, "b", op("add", path, value))


async def test_an_opened_command_is_still_one_that_its_author_may_run(tmp_path: Path) -> None:
    reader: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "plan_patch"]}}
    async with real(tmp_path) as plan:
        tasks: JsonObject = {"b": {"goal": "g", "agent": reader}, "c": {"run": "make", "open": ["run"]}}
        await plan.save({"plan": "p", "tasks": tasks})
        assert await by(plan, "b", op("replace", "/tasks/c/run", "id")) == ["rights"]


@pytest.mark.parametrize(
    "check",
    [
        {"contains": {"path": "../b/secret", "text": "x"}},
        {"json": {"path": "/etc/secret.json", "subset": {}}},
        {"http": {"url": "http://example.org/?stolen"}},
        {"port": {"port": 25, "host": "example.org"}},
    ],
)
async def test_a_check_reads_and_asks_nothing_that_its_author_may_not(tmp_path: Path, check: Json) -> None:
    below: JsonObject = {"goal": "n", "agent": SCRIPT, "cwd": "a", "acceptance": [check]}
    near: Json = [{"contains": {"path": "x/../y", "text": "z"}}, {"http": {"url": "http://localhost:80/"}}]
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"a": {"goal": "g", "agent": SCRIPT, "cwd": "a"}}})
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"n": below})) == ["rights"]
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"n": {**below, "acceptance": near}})) == []


async def test_lock_requested_by_an_agent_is_inside_its_own_workspace(tmp_path: Path) -> None:
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"a": {"goal": "g", "agent": SCRIPT, "cwd": "a"}}})
        below: JsonObject = {"goal": "n", "agent": SCRIPT, "cwd": "a"}
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"n": {**below, "locks": ["**"]}})) == ["rights"]
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"n": {**below, "locks": ["a/x/**"]}})) == []


async def test_law_11_an_agent_does_not_grow_the_plan_past_what_a_file_may_have(tmp_path: Path) -> None:
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"a": {"goal": "g", "agent": SCRIPT, "cwd": "a"}}})
        half = "n" * (limits.PLAN_FILE_BYTES_MAX // 2)
        assert await by(plan, "a", op("add", "/tasks/a/notes", half)) == []
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"b": {"goal": half, "cwd": "a"}})) == ["schema"]
        assert await by(plan, "a", op("remove", "/tasks/a/notes")) == []


async def test_cli_agent_is_a_command_and_secrets_of_the_owner_are_granted_by_operators(tmp_path: Path) -> None:
    shell: JsonObject = {**SCRIPT, "rights": {"tools": ["task", "plan_patch", "shell(echo *)"]}}
    reader: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "plan_patch"]}}
    async with real(tmp_path) as plan:
        await plan.save(
            {"plan": "p", "tasks": {"a": {"goal": "g", "agent": reader}, "b": {"goal": "g", "agent": shell}}}
        )

        def below(how: JsonObject) -> JsonObject:
            return {"n": {"goal": "n", "agent": {"outside": how}}}

        echo: JsonObject = {"run": ["echo", "x"], "output": "json"}
        assert await by(plan, "a", op("add", "/tasks/a/tasks", below(echo))) == ["rights"]
        for wider in ({"env": {"KEY": "env:KEY"}}, {"continue": ["rm", "-rf", "x"]}):
            assert await by(plan, "b", op("add", "/tasks/b/tasks", below({**echo, **wider}))) == ["rights"]
        assert await by(plan, "b", op("add", "/tasks/b/tasks", below(echo))) == []


async def test_a_program_in_a_mixin_is_a_command_too(tmp_path: Path) -> None:
    reader: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "plan_patch"]}}
    mixins: JsonObject = {"m": {"settings": {"line": "true"}, "before": [{"run": "$line"}]}}
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "mixins": mixins, "tasks": {"a": {"goal": "g", "agent": reader}}})
        child: JsonObject = {**SCRIPT, "mixins": [{"m": {"line": "id"}}]}
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"n": {"goal": "n", "agent": child}})) == ["rights"]


def _laid_out(folder: Path) -> None:
    """The plan's own files, a workspace `a` and that of another agent."""
    for name, text in {
        "plan.json": '{"checks": "secret"}',
        "house.md": "the rules of the house",
        "b/out.txt": "an answer",
        "a/role.md": "be kind",
        "a/kind.yaml": "prompt: file:a/role.md\nmodel: ollama/x",
        "a/nosy.yaml": 'prompt: "f\\x69le:plan.json"\nmodel: ollama/x',
        "a/guest.yaml": "prompt: file:house.md\nmodel: ollama/x",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "a/out.md").symlink_to("../plan.json")
    (folder / "a/way").symlink_to("..")
    (folder / "a/near.md").symlink_to("role.md")


WORKING: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "task", "plan_patch"]}}
HOUSE: JsonObject = {"goal": "h", "agent": {**SCRIPT, "prompt": "file:house.md"}, "cwd": "b"}


@pytest.mark.parametrize(
    "agent_below",
    [
        {**SCRIPT, "prompt": "file:plan.json"},
        {**SCRIPT, "prompt": "file:b/out.txt"},
        {**SCRIPT, "prompt": "file:a/out.md"},
        {**SCRIPT, "prompt": "file:a/way/plan.json"},
        {**SCRIPT, "prompt": "file:a/../plan.json"},
        {**SCRIPT, "prompt": "file:none.md"},
        {**SCRIPT, "prompt": "file:house.md"},
        {**SCRIPT, "agent/prompt": "file:house.md"},
        {**SCRIPT, "mixins": ["file:plan.json"]},
        {**SCRIPT, "mixins": [{"file:plan.json": {"x": 1}}]},
        {**SCRIPT, "hooks": ["file:plan.json"]},
        {**SCRIPT, "tools": ["file:plan.json"]},
        {"extends": "file:plan.json"},
        {"extends": "file:a/nosy.yaml"},
        {"extends": "file:a/guest.yaml"},
        "file:plan.json",
    ],
)
async def test_an_agent_names_no_file_that_it_may_not_read(tmp_path: Path, agent_below: Json) -> None:
    _laid_out(tmp_path)
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"a": {"goal": "g", "agent": WORKING, "cwd": "a"}, "h": HOUSE}})
        below = {"n": {"goal": "n", "agent": agent_below, "cwd": "a"}}
        verdict = await plan.patch(op("add", "/tasks/a/tasks", below), by=agent("a"))
        assert isinstance(verdict, PatchRefused)
        told = " ".join(fault.message for fault in verdict.faults)
        said(told)
        assert "checks" not in told


@pytest.mark.parametrize(
    "agent_below",
    [
        {**SCRIPT, "prompt": "file:a/role.md"},
        {**SCRIPT, "prompt": "file:a/near.md"},
        {**SCRIPT, "mixins": ["file:a/kind.yaml"]},
        {**SCRIPT, "prompt": "lib:decompose"},
        {**SCRIPT, "prompt": "house"},
    ],
)
async def test_an_agent_names_files_of_its_workspace_and_what_the_plan_has_names_for(
    tmp_path: Path, agent_below: JsonObject
) -> None:
    _laid_out(tmp_path)
    (tmp_path / "a/kind.yaml").write_text("prompt: file:a/role.md")
    prompts: JsonObject = {"house": "file:house.md"}
    tasks: JsonObject = {"a": {"goal": "g", "agent": WORKING, "cwd": "a"}, "h": HOUSE}
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "prompts": prompts, "tasks": tasks})
        assert await by(plan, "a", op("add", "/tasks/a/tasks", {"n": {"goal": "n", "agent": agent_below}})) == []
        # An agent that may not read the file patches the plan as before.
        assert await by(plan, "h", op("add", "/tasks/h/tasks", {"m": {"goal": "m", "agent": SCRIPT, "cwd": "b"}})) == []


async def test_a_file_that_an_agent_may_name_is_bound_by_its_rights_to_read(tmp_path: Path) -> None:
    _laid_out(tmp_path)
    reader: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "plan_patch"], "read": ["a/*.txt"], "deny": []}}
    below: JsonObject = {"n": {"goal": "n", "agent": {**SCRIPT, "prompt": "file:a/role.md"}}}
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"a": {"goal": "g", "agent": reader, "cwd": "a"}}})
        assert await by(plan, "a", op("add", "/tasks/a/tasks", below)) == ["schema"]


async def test_file_named_by_an_agent_is_not_followed_once_it_is_a_link(tmp_path: Path) -> None:
    _laid_out(tmp_path)
    below: JsonObject = {"n": {"goal": "n", "agent": {**SCRIPT, "prompt": "file:a/role.md"}}}
    async with real(tmp_path) as plan:
        await plan.save({"plan": "p", "tasks": {"a": {"goal": "g", "agent": WORKING, "cwd": "a"}}})
        assert await by(plan, "a", op("add", "/tasks/a/tasks", below)) == []
        (tmp_path / "a/role.md").unlink()
        (tmp_path / "a/role.md").symlink_to("../plan.json")
        assert await by(plan, "a", op("add", "/tasks/a/notes", "n")) == ["schema"]


async def test_child_led_out_of_its_makers_folder_can_name_no_file_there(tmp_path: Path) -> None:
    _laid_out(tmp_path)
    async with real(tmp_path) as plan:
        child: JsonObject = {"goal": "n", "agent": WORKING, "cwd": "a/way"}
        await plan.save(
            {"plan": "p", "tasks": {"a": {"goal": "g", "agent": WORKING, "cwd": "a", "tasks": {"c": child}}}}
        )
        for name in ("plan.json", "a/role.md", "b/out.txt"):
            below: JsonObject = {"goal": "n", "agent": {**SCRIPT, "prompt": f"file:a/way/{name}"}}
            assert await by(plan, "a/c", op("add", "/tasks/a/tasks/c/tasks", {"n": below})) == ["schema"]
