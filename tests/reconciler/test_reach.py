"""Law 6: what an agent's patch lets others run, read, lock and ask is what its author may, in the real language."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import compiler
from compiler import merging
from planloop.sources import FolderSources
from reconciler.admitting.language import Language
from schemas import limits
from schemas.encoding import Json, JsonObject
from schemas.patch import Refused
from schemas.patching import Op
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

SCRIPT: JsonObject = {"script": [{"done": True}]}


def real(folder: Path) -> AbstractAsyncContextManager[Plan]:
    """A plan in the language that people write."""
    sources = FolderSources(folder)
    check = lambda document: compiler.check_document(document, sources=sources)  # noqa: E731 - one line as a field
    return opened(folder, Language(check, merging.merge, compiler.change_class))


async def by(plan: Plan, who: str, *ops: Op) -> list[str]:
    """The grounds on which the patch was refused, none when it was not."""
    verdict = await plan.patch(*ops, by=agent(who))
    return sorted({fault.rule for fault in verdict.faults}) if isinstance(verdict, Refused) else []


@pytest.mark.parametrize("path", ["/tasks/b/tasks/n/cwd", "/tasks/b/tasks/n/env"])
async def test_a_command_elsewhere_or_with_another_environment_is_another_command(tmp_path: Path, path: str) -> None:
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


async def test_a_lock_that_an_agent_asks_for_lies_in_its_own_workspace(tmp_path: Path) -> None:
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


async def test_an_outside_agent_is_a_command_and_what_the_owner_knows_is_given_by_people(tmp_path: Path) -> None:
    shell: JsonObject = {**SCRIPT, "rights": {"tools": ["task", "plan_patch", "shell(echo *)"]}}
    reader: JsonObject = {**SCRIPT, "rights": {"tools": ["read", "plan_patch"]}}
    async with real(tmp_path) as plan:
        await plan.save(
            {"plan": "p", "tasks": {"a": {"goal": "g", "agent": reader}, "b": {"goal": "g", "agent": shell}}}
        )

        def below(how: JsonObject) -> JsonObject:
            return {"n": {"goal": "n", "agent": {"outside": how}}}

        echo: JsonObject = {"run": ["echo", "x"]}
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
