"""An applied plan without an owner, with the Edit page's service over it as in `plan serve`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import pytest

from planloop.client import plan_file, plan_paths
from planloop.client.plan_client import PlanClient
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.diff.file_patch import FileSave
from planloop.server import opened_plan
from planloop.server.api import validation
from planloop.server.edit.edit_service import EditService
from planloop.server.gateway.owner_proxy import OwnerProxy
from planloop.server.gateway.replica import PlanReplica


@dataclass(slots=True)
class EditSession:
    """The plan at `place`, its file, an edit service, and the draft of a user in the page."""

    place: PlanPaths
    file: Path
    desk: EditService
    replica: PlanReplica
    draft: dict[str, Any] = field(default_factory=dict)

    async def begin(self) -> str:
        """Opens the page; the text that it shows."""
        found = told("EditText", await self.desk.text())
        self.draft = {key: found[key] for key in ("text", "format", "base", "blob")} | {"chosen": {}}
        return str(found["text"])

    def type(self, old: str, new: str) -> None:
        """Replaces words of the text."""
        assert old in self.draft["text"], self.draft["text"]
        self.draft["text"] = self.draft["text"].replace(old, new)

    async def look(self, **more: Any) -> Any:
        return told("Look", await self.desk.post("edit/look", {**self.draft, **more}))

    async def apply(self, shown: str | None = None, reason: str = "") -> Any:
        """Press Apply with `shown`, or the current preview. The returned draft replaces the old one."""
        seen = shown if shown is not None else (await self.look())["edit"]
        said = told("EditVerdict", await self.desk.post("edit/apply", {**self.draft, "shown": seen, "reason": reason}))
        if said["verdict"] == "accepted":
            self.draft |= said["draft"]
        return said

    async def merge(self) -> None:
        self.draft |= told("NewDraft", await self.desk.post("edit/merge", self.draft))

    async def pull(self) -> Any:
        return told("Pulled", await self.desk.post("edit/pull", self.draft))

    async def patch(self, *ops: dict[str, Any]) -> None:
        """A concurrent change by another user."""
        body = {"ops": list(ops), "reason": "elsewhere"}
        verdict = await anyio.to_thread.run_sync(PlanClient(self.place).post, "patch", body)
        assert verdict["verdict"] == "accepted", verdict
        await self.replica.until(verdict["rev"])

    async def goal(self, task: str, words: str) -> None:
        await self.patch({"op": "replace", "path": f"/tasks/{task}/goal", "value": words})

    @property
    def live(self) -> Any:
        """The live document."""
        plan = self.replica.get(f"plan/{self.place.name}")
        assert plan is not None
        return plan.spec


def told(model: str, answer: Any) -> Any:
    """`answer`, which is what the API's description says."""
    validation.model_or_union(model).model_validate(answer)
    return answer


Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[EditSession]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """`opened(text, name="demo.plan.yaml")`: the plan with that text, as bytes or words, applied."""

    @asynccontextmanager
    async def open_room(text: str | bytes, name: str = "demo.plan.yaml") -> AsyncIterator[EditSession]:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        file = plan_file.read_plan(path)
        assert not file.errors, plan_file.fault_text(file, color=False)
        place = plan_paths.paths_of_file(path, file.name)
        place.folder.mkdir(parents=True)
        async with opened_plan.open_plan(place) as core:
            await core.gate.decide_file(FileSave(path.name, file.content, file.document))
        place.note_file(path)
        replica = PlanReplica(place)
        await replica.load()
        async with anyio.create_task_group() as group:
            group.start_soon(replica.run)
            desk = EditService(replica, OwnerProxy(replica))
            try:
                yield EditSession(place, path, desk, replica)
            finally:
                desk.close()
                replica.close()
            group.cancel_scope.cancel()

    return open_room
