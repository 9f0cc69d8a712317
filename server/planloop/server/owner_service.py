"""Handle requests to one opened plan, for the owner API and for commands without an owner.

`planloop.server.read_queries` answers reads. Every change of the plan goes through the gate. A refusal by the gate is
an answer, not an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, TypeVar

import anyio.to_thread

from planloop.client import tail_file
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.admission import preview
from planloop.reconciler.effects.journal import settle_unknown
from planloop.reconciler.errors import TerminalError
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.json_patch import PatchFailed, ops_from_json
from planloop.schemas.log.patch import Patch
from planloop.schemas.log.record import Record, RecordDraft
from planloop.schemas.resource import Resource
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import (
    author_of,
    decision_to_json,
    file_preview,
    preview_to_json,
    save_from_json,
    verdict_to_json,
    why_answer,
)
from planloop.server.read_queries import OTHER_VERSION_HINT, OwnerInfo, is_log_query, read_answer

if TYPE_CHECKING:
    from planloop.controllers.agent.services import ToolServers

T = TypeVar("T")
MCP_CLIENT_ACTIONS = ("take", "say", "renew", "leave", "withdraw", "preview")
"""Requests of MCP clients, handled in `planloop.server.external_agents`."""
PostHandler: TypeAlias = Callable[[JsonObject], Awaitable[Json]]


class OpenedPlanReader:
    """The open store as a `plan_reader.PlanReader`."""

    def __init__(self, core: OpenedPlan) -> None:
        self._core = core

    @property
    def rev(self) -> int:
        return self._core.store.durable_rev

    @property
    def epoch(self) -> int:
        return self._core.owner.epoch

    def get(self, address: str) -> Resource | None:
        return self._core.store.view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._core.store.view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._core.store.get_blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self._core.place.folder, op)


class OwnerService:
    """Answers requests to one opened plan.

    `host` describes this process for `status`. `stop` stops the owner, `servers` returns the running tool servers; both
    are None if this process has opened the plan only for one request.
    """

    def __init__(
        self,
        core: OpenedPlan,
        host: OwnerInfo | None = None,
        stop: Callable[[bool, bool], Awaitable[None]] | None = None,
        servers: Callable[[], ToolServers] | None = None,
    ) -> None:
        self._core = core
        self._host = host or OwnerInfo(core.place.name)
        self._stop = stop
        self._servers = servers
        self._archive = OpenedPlanReader(core)
        self._posts: Mapping[str, PostHandler] = {
            "patch": self._patch,
            "diff": self._diff,
            "file": self._file,
            "preview": self._preview,
            "saved": self._saved,
            "approve": self._approve,
            "reject": self._reject,
            "rule": self._rule,
            "unlock": self._unlock,
            "settle": self._settle,
            "rollback": self._rollback,
            "send": self._send,
            "steer": self._steer,
            "session": self._session,
            "restore": self._restore,
            "prompt": self._prompt,
            "stop": self._stopped,
            **{f"guest/{how}": partial(self._guest, how) for how in MCP_CLIENT_ACTIONS},
        }

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        """Return the answer to GET `path`. Raises CommandError."""
        if path == "why":
            return await self._why(query)
        if is_log_query(path, query):
            from planloop.server import history

            log, name = self._core.log, self._core.place.name
            return await anyio.to_thread.run_sync(history.history_answer, log, name, path, query)
        return read_answer(self._archive, self._host, path, query)

    async def post(self, path: str, body: JsonObject) -> Json:
        """Return the answer to POST `path`. Raises CommandError."""
        post = self._posts.get(path)
        if post is None:
            raise CommandError(ExitCode.USAGE, f"the API has no POST `{path}`", OTHER_VERSION_HINT)
        return await post(body)

    def watch(self, after: int) -> AsyncIterator[Record]:
        """Yield every durable record after `after`."""
        return self._core.store.watch(after)

    def hear(self) -> AsyncIterator[JsonObject]:
        """Yield the text of models while they write it."""
        return self._core.hearing.listen()

    async def _why(self, query: Mapping[str, str]) -> JsonObject:
        return await why_answer(self._core.store, self._core.gate.present, query.get("at", ""))

    async def _patch(self, body: JsonObject) -> JsonObject:
        try:
            ops = ops_from_json(body["ops"])
        except PatchFailed as error:
            raise CommandError(
                ExitCode.USAGE, f"operation {error.index}: {error.reason}", "write operations as in RFC 6902"
            ) from None
        present = self._core.gate.present
        if body.get("document_rev") not in (None, present.document_rev):
            return {"verdict": "moved", "rev": present.rev, "document_rev": present.document_rev}
        patch = Patch(author_of(body), ops, body.get("base_rev") or present.rev, body.get("reason", ""))
        patch = replace(patch, is_approved=bool(body.get("is_approved")))
        if body.get("dry_run"):
            return preview_to_json(self._core.gate.preview(patch))
        return decision_to_json(await self._core.gate.decide(patch))

    async def _diff(self, body: JsonObject) -> JsonObject:
        return file_preview(self._core.gate, save_from_json(body))

    async def _file(self, body: JsonObject) -> JsonObject:
        return decision_to_json(await self._core.gate.decide_file(save_from_json(body)))

    async def _preview(self, body: JsonObject) -> JsonObject:
        """Return the preview that `saved` accepts later."""
        return self._core.gate.save_preview(save_from_json(body))

    async def _saved(self, body: JsonObject) -> JsonObject:
        try:
            saved = preview.preview_from_json(body.get("preview"))
        except preview.InvalidPreview as error:
            hint = "create a preview: plan apply FILE --out PREVIEW"
            raise CommandError(ExitCode.USAGE, str(error), hint) from None
        verdict = await self._core.gate.submit_saved(saved, is_approved=bool(body.get("is_approved")))
        return verdict_to_json(verdict, saved.differences, is_changed=bool(saved.patch.ops))

    async def _approve(self, body: JsonObject) -> JsonObject:
        from planloop.client.render import differences

        address = str(body["address"])
        waiting = self._core.store.view.get(address)
        held = waiting.spec if waiting is not None else {}
        shown = held.get("differences") or ()
        left = differences.hidden_count(shown, held.get("difference_counts"))
        reason, content = str(body.get("reason", "")), body.get("content")
        verdict = await self._answered(self._core.gate.approve(address, author_of(body), reason, content))
        return verdict_to_json(verdict, shown, left=left)

    async def _reject(self, body: JsonObject) -> JsonObject:
        rev = await self._answered(
            self._core.gate.reject(str(body["address"]), author_of(body), str(body.get("reason", "")))
        )
        return {"rev": rev}

    async def _rule(self, body: JsonObject) -> JsonObject:
        from planloop.server import operator_requests  # Rarely needed.

        return await operator_requests.resolve_conflict(self._core, body)

    async def _unlock(self, body: JsonObject) -> JsonObject:
        from planloop.server import operator_requests

        return await operator_requests.unlock_for_person(self._core, body)

    async def _settle(self, body: JsonObject) -> JsonObject:
        """Record an operator's statement whether a call of unknown outcome happened."""
        store, address = self._core.store, str(body["address"])
        call = store.view.get(address)
        if call is None:
            raise CommandError(ExitCode.NOT_FOUND, f"no {address} in this plan", "plan get calls lists them")
        try:
            changes = settle_unknown(call, happened=bool(body["happened"]))
        except ValueError as error:
            raise CommandError(ExitCode.CONFLICT, str(error), f"plan describe {address}") from None
        data: JsonObject = {"happened": bool(body["happened"]), "reason": str(body.get("reason", ""))}
        draft = RecordDraft("call.reconciled", str(author_of(body)), address, changes, data)
        return {"rev": await store.append(draft, {address: call.rev})}

    async def _rollback(self, body: JsonObject) -> JsonObject:
        gate, rev = self._core.gate, int(body["rev"])
        if body.get("dry_run"):
            from planloop.client.presenters import revisions

            preview = await self._answered(gate.preview_roll_back(rev, author_of(body)))
            found = [one.to_json() for one in preview.differences]
            return preview_to_json(preview) | revisions.differences_json(found, self._core.clock.now())
        is_approved = bool(body.get("is_approved"))
        verdict = await self._answered(
            gate.roll_back(rev, author_of(body), str(body.get("reason", "")), is_approved=is_approved)
        )
        return verdict_to_json(verdict, ())

    async def _send(self, body: JsonObject) -> JsonObject:
        from planloop.server import operator_requests

        return await operator_requests.send_message(self._core, body)

    async def _steer(self, body: JsonObject) -> JsonObject:
        from planloop.server import task_control  # Loads the presenters.

        return await task_control.control_tasks(self._core, body)

    async def _restore(self, body: JsonObject) -> JsonObject:
        from planloop.server import agent_export

        return await agent_export.restore_agent(self._core, body)

    async def _prompt(self, body: JsonObject) -> JsonObject:
        from planloop.server import operator_requests

        if self._servers is None:
            raise CommandError(
                ExitCode.NOT_FOUND,
                f"{self._core.place.name} is not running, so its tool servers are not available",
                "start it: plan apply FILE",
            )
        return await operator_requests.prompt_text(self._servers, body)

    async def _answered(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except TerminalError as error:
            code = ExitCode.NOT_FOUND if error.reason == "NotFound" else ExitCode.CONFLICT
            raise CommandError(code, str(error), "") from None

    async def _session(self, body: JsonObject) -> JsonObject:
        from planloop.server import operator_requests

        return await operator_requests.move_session(self._core, body)

    async def _guest(self, how: str, body: JsonObject) -> JsonObject:
        from planloop.server import external_agents  # Few plans have external agents.

        return await external_agents.handle_request(self._core, how, body, is_run=self._stop is not None)

    async def _stopped(self, body: JsonObject) -> JsonObject:
        if self._stop is None:
            raise CommandError(
                ExitCode.NOT_FOUND, f"{self._core.place.name} is not running", "plan get shows its state"
            )
        await self._stop(bool(body.get("leave")), bool(body.get("volumes")))
        return {"stopping": True}
